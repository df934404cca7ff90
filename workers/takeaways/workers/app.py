"""What `celery -A takeaways.workers.app` loads."""

from takeaways.workers.pools.tasks import worker_app

app = worker_app()
