#!/bin/sh
# Prints the users for Redis: a template with hashes of the passwords in the place of their names.
#
#   sh users.sh users.acl > /tmp/users.acl
#
# For `{NAME}` in the template it takes the variable NAME, else the file that the variable NAME_FILE names. A missing
# password, or one that is too short to be a secret, is an error, and nothing is printed.
set -eu
umask 077

template=$1
script=
for name in $(grep -v '^#' "$template" | grep -o '{[A-Z_]*}' | tr -d '{}' | sort -u); do
    eval "password=\${$name:-}; file=\${${name}_FILE:-}"
    if [ -z "$password" ] && [ -n "$file" ]; then
        password=$(cat "$file")
    fi
    if [ "${#password}" -lt 16 ]; then
        echo "users.sh: set $name, or ${name}_FILE, to a password of at least 16 characters: openssl rand -hex 32" >&2
        exit 1
    fi
    hash=$(printf %s "$password" | sha256sum | cut -d ' ' -f 1)
    script="$script;s/{$name}/$hash/g"
done
sed -e '/^#/d;/^$/d' "$template" | sed -e ':join' -e '/\\$/{N;s/ *\\\n */ /;bjoin' -e '}' | sed -e "${script#;}"
