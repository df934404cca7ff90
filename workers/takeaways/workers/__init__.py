"""The pipeline: intake, the decision, leases, extraction, consolidation, the models and the command line."""
