"""`takeaways doctor`: looks at everything a deployment stands on and says what to do.

`examine` asks the servers; the judgements in `judge` are pure. Nothing is changed.
"""
