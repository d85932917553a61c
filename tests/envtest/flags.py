#!/usr/bin/env python3
"""Gives command lines that are wrong to kube-apiserver and to watchcache under its name, and compares how they end and what they say.

    flags.py REAL OURS

REAL and OURS are folders with a `kube-apiserver`. kube-apiserver says `Error: …` about its command line and logs what it finds later; that is taken for the same. Fails on a difference that is not
in INTENDED, and on an entry of it that is none any more.
"""

import os
import re
import subprocess
import sys
import tempfile

ALONE = """--nope|--nope=1 --x|-z|-vx|--v|-v|-v=|--v=-1|--v=99999999999|---x|--=|--=x|x|-- x|--allow-privileged=maybe|--allow_privileged=x|--secure_port=x|--min-request-timeout=x|
--min-request-timeout=9999999999999999999999|--goaway-chance=x|--request-timeout=5|--request-timeout=5x|--request-timeout=|--bind-address=1.2.3|--advertise-address=|--tls-sni-cert-key=|
--tls-sni-cert-key=a,b:|--oidc-required-claim=a|--vmodule=|--vmodule==1|--vmodule=a=-1|--version=x|--version=false|--help=x|--feature-gates=|--feature-gates=A=b|--feature-gates=kube:Nope=true|
--feature-gates=AllAlpha|--feature-gates=other:A=true|--etcd-servers|--kubelet-port=-1|--kubelet-port=x|--audit-log-batch-throttle-qps=x|--delete-collection-workers=1.5|
--lease-reuse-duration-seconds=x|--tls-curve-preferences=x|--log-text-info-buffer-size=x|--service-node-port-range=x|--allow-metric-labels=a|--runtime-config==|--insecure-port=0|
--kubernetes-service-node-port=x"""

# Beside what a start needs.
WITH_THE_REST = """--secure-port=0|--secure-port=70000|--enable-admission-plugins=Nope|--enable-admission-plugins=A,B --disable-admission-plugins=B|
--enable-admission-plugins=Priority --disable-admission-plugins=Priority,LimitRanger|--admission-control=Nope|--admission-control=Priority --enable-admission-plugins=Priority|--storage-backend=x|
--storage-media-type=x|--runtime-config=x|--runtime-config=nope/v1=true|--runtime-config=api/all=false|--service-account-issuer=https://a|--service-account-issuer=|--goaway-chance=1|
--authorization-mode=Foo|--authorization-mode=RBAC,RBAC|--audit-log-mode=x|--audit-log-format=x --audit-log-path=a|--service-cluster-ip-range=x|
--service-cluster-ip-range=10.0.0.0/24,10.1.0.0/24|--tls-min-version=x|--tls-cipher-suites=x|--logging-format=x|--strict-transport-security-directives=x|--etcd-servers-overrides=x|
--cors-allowed-origins=x|--tls-cert-file=x|--max-requests-inflight=-1|--request-timeout=-5s|--min-request-timeout=-1|--authorization-webhook-config-file=x --authorization-mode=RBAC|
--client-ca-file=/nope|--token-auth-file=/nope|--encryption-provider-config-automatic-reload|--oidc-client-id=x"""

INTENDED = {
    "--service-cluster-ip-range=x": "the text names the value",
    "--cors-allowed-origins=x": "without the help of the flag",
    "--tls-cert-file=x": "the text names both flags",
    "--authorization-webhook-config-file=x --authorization-mode=RBAC": "the text is about the other options of the webhook too",
    "--client-ca-file=/nope": "the text names the flag",
    "--token-auth-file=/nope": "the text names the flag",
    "--encryption-provider-config-automatic-reload": "there is no encryption",
}


def lines(text):
    return ["".join(line.split("\n")) for line in text.split("|")]


def end(program, line, folder):
    """How it ends and what it says, without its log."""
    try:
        ended = subprocess.run([program, *line.split()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20, text=True, cwd=folder)
    except subprocess.TimeoutExpired:
        return None, "runs"
    said = "\n".join(line for line in ended.stdout.splitlines() if not re.match(r"[IW]\d{4} ", line) and " INFO " not in line and " WARN " not in line)
    logged = re.search(r'"command failed" err="(.*)"$', said, re.M)
    return ended.returncode, "Error: " + logged.group(1).replace('\\"', '"').replace("\\\\", "\\") if logged else said.strip()


def main():
    real, ours = (os.path.join(os.path.abspath(folder), "kube-apiserver") for folder in sys.argv[1:3])
    wrong, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        keys = os.path.join(folder, "accounts.key")
        subprocess.run(["openssl", "genrsa", "-out", keys, "2048"], check=True, capture_output=True)
        rest = (f"--etcd-servers=http://127.0.0.1:1 --service-account-issuer=https://a --service-account-key-file={keys} --service-account-signing-key-file={keys} "
                f"--cert-dir={folder}/certs ")
        for line, before in [(line, "") for line in lines(ALONE)] + [(line, rest) for line in lines(WITH_THE_REST)]:
            theirs, answer = end(real, before + line, folder), end(ours, before + line, folder)
            count += 1
            if (theirs == answer) == (line in INTENDED):
                wrong.append(f"{line}\n  kube-apiserver: {theirs}\n  watchcache:     {answer}")
    print(f"{count} command lines, {len(wrong)} unintended differences, {len(INTENDED)} intended", *wrong, sep="\n")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
