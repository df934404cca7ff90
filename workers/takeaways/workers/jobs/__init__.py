"""One job from its claim to its ending: asking the model, what an ending means, what is kept and what it cost."""
