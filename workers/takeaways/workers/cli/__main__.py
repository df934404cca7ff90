from takeaways.workers.cli import main

main()
