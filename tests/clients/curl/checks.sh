#!/usr/bin/env bash
# checks.sh KUBECONFIG: curl against the server of a kubeconfig (as --write-admin-kubeconfig writes it): one line for each check, 1 when one fails.
set -euo pipefail
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; rm -rf "$dir"' EXIT
member() { sed -n "s/^ *$1: //p" "$kubeconfig"; }
kubeconfig=$1
server=$(member server)
options=(--silent --show-error --max-time 20)
if [ -n "$(member certificate-authority-data)" ]; then
  for name in certificate-authority client-certificate client-key; do member "$name-data" | base64 -d > "$dir/$name.pem"; done
  options+=(--cacert "$dir/certificate-authority.pem" --cert "$dir/client-certificate.pem" --key "$dir/client-key.pem")
fi

failed=0
# check NAME WANTED FOUND: the found text has the wanted one.
check() {
  case $3 in
    *"$2"*) echo "ok: curl: $1" ;;
    *) echo "FAILED: curl: $1: wanted $2, found $3" && failed=1 ;;
  esac
}
ask() { curl "${options[@]}" "$@" || echo "curl failed with $?"; }
send() { ask -X "$1" -H "Content-Type: $2" -d "$3" "$server$4"; }

maps=/api/v1/namespaces/default/configmaps
map='{"metadata": {"name": "curl"}, "data": {"a": "1"}}'
if [ -f "$dir/certificate-authority.pem" ]; then
  # As clients with a newer OpenSSL judge.
  host=${server#https://}
  judged=$(openssl s_client -connect "$host" -CAfile "$dir/certificate-authority.pem" -x509_strict -verify_return_error -cert "$dir/client-certificate.pem" \
    -key "$dir/client-key.pem" < /dev/null 2>&1 || true)
  check "a strict OpenSSL believes the server" "Verify return code: 0 (ok)" "$judged"
fi
check "a list" '"kind": "ConfigMapList"' "$(ask "$server$maps")"
revision=$(ask "$server$maps" | sed -n 's/.*"resourceVersion": "\([0-9]*\)".*/\1/p' | head -1)
check "create" '"curl"' "$(send POST application/json "$map" "$maps")"
check "patch (merge)" '"b": "2"' "$(send PATCH application/merge-patch+json '{"data": {"b": "2"}}' "$maps/curl")"
check "patch (JSON)" '"c": "3"' "$(send PATCH application/json-patch+json '[{"op": "add", "path": "/data/c", "value": "3"}]' "$maps/curl")"
check "patch (strategic)" '"d": "4"' "$(send PATCH application/strategic-merge-patch+json '{"data": {"d": "4"}}' "$maps/curl")"
check "a type in capitals" '"AlreadyExists"' "$(send POST 'Application/JSON; charset=UTF-8' "$map" "$maps")"
check "a body without a type" '"AlreadyExists"' "$(ask -X POST -H 'Content-Type:' -d "$map" "$server$maps")"
check "a form is refused" '"code": 415' "$(ask -X POST -d "$map" "$server$maps")"
check "delete" '"status": "Success"' "$(send DELETE application/json '{}' "$maps/curl")"
events=$(ask -N "$server$maps?watch=true&resourceVersion=$revision&timeoutSeconds=1&fieldSelector=metadata.name%3Dcurl" | grep -o '^{"type":"[A-Z]*' | tr -d '\n')
check "a watch resumes" '{"type":"ADDED{"type":"MODIFIED{"type":"MODIFIED{"type":"MODIFIED{"type":"DELETED' "$events"
check "HTTP/2" '2' "$(ask --http2-prior-knowledge -o /dev/null -w '%{http_version}' "$server$maps")"
exit $failed
