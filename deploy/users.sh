#!/bin/bash
# One shot, in the image of Elasticsearch: sets the password of Kibana's own user, and makes the user `kappa` with a role that
# may do what `app/search/mappings.py` and `app/search/aliases.py` do, and read. Doing it again changes nothing.
set -euo pipefail

ask() { # METHOD PATH BODY: exit code 22 where Elasticsearch refuses. The password is not on the command line, which others see.
    curl --silent --show-error --fail-with-body --output /dev/null --config - \
        --request "$1" "${ELASTICSEARCH_URL:-http://elasticsearch:9200}$2" --header 'Content-Type: application/json' --data "$3" \
        <<<"user = \"elastic:${ELASTIC_PASSWORD}\""
}

for name in ELASTIC_PASSWORD KIBANA_PASSWORD KAPPA_USER_PASSWORD; do
    if [[ ! ${!name} =~ ^[A-Za-z0-9._~+@%-]{8,}$ ]]; then
        echo "users: $name: wanted at least 8 letters, digits or . _ ~ + @ % -; set it in .env" >&2
        exit 1
    fi
done

ask POST /_security/user/kibana_system/_password "{\"password\":\"$KIBANA_PASSWORD\"}"
ask PUT /_security/role/kappa '{
    "cluster": ["monitor", "manage_index_templates", "manage_ilm"],
    "indices": [{
        "names": ["kappa-*"],
        "privileges": ["all"]
    }, {
        "names": ["scores-*", "novelties-*", "incidents-*", "pipeline-*", "labels-*"],
        "privileges": ["view_index_metadata"]
    }]
}'
ask PUT /_security/user/kappa "{\"password\":\"$KAPPA_USER_PASSWORD\",\"roles\":[\"kappa\"]}"
echo "users: kibana_system and kappa are as they should be"
