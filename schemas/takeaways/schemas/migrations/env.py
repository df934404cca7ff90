"""What Alembic runs for each migration, inside the transaction that `migrate` opened."""

from alembic import context

from takeaways.schemas.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transaction_per_migration=False,
)
context.run_migrations()
