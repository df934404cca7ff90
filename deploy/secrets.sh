#!/bin/sh
# Makes up the passwords that docker-compose.yml asks for, once: what is there already stays.
#
#   deploy/secrets.sh [FOLDER]
#
# They are written to .env in the folder (by default the root of the project), which compose reads by itself.
# Prometheus reads Flower's from a file. Only you may read the folder of that file; the file itself is readable,
# because it is mounted as it is and Prometheus runs as nobody.
set -eu
umask 077
cd "${1:-$(dirname "$0")/..}"

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

touch .env
# A last line without an end would run into ours.
[ -z "$(tail -c 1 .env)" ] || echo >>.env
for name in \
    REDIS_PRODUCER REDIS_WORKER REDIS_METRICS REDIS_FLOWER REDIS_OPERATOR REDIS_ADMIN \
    POSTGRES POSTGRES_MIGRATE POSTGRES_WORK POSTGRES_RECALL POSTGRES_READ \
    FLOWER GRAFANA; do
    grep -q "^${name}_PASSWORD=." .env || echo "${name}_PASSWORD=$(random)" >>.env
done

mkdir -p deploy/secrets
sed -n 's/^FLOWER_PASSWORD=//p' .env | tail -n 1 | tr -d '\n' >deploy/secrets/flower-password
chmod 0644 deploy/secrets/flower-password
