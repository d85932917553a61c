#!/usr/bin/env python3
"""record.py make DIR: makes certificates of many kinds with openssl in DIR, and DIR/authorities.crt, the file for --client-ca-file.
record.py ask DIR URL: asks the server at URL with each of them who it is; prints a line for each: name, status, user.
record.py record DIR URL: the same, and writes cases.json beside this file, for the tests.

The server is a kube-apiserver 1.36.3 that was started with --client-ca-file DIR/authorities.crt; with `ask` it may be any."""
import json, os, pathlib, subprocess, sys, time

EC = "-newkey ec -pkeyopt ec_paramgen_curve:"
# The oid and the short name of an extension that nobody knows, and of the uid of a user.
UNKNOWN, UID = "1.2.3.4.5.6", "1.3.6.1.4.1.57683.2"


def run(*words, into=None):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{words}: {done.stderr}")
    return done.stdout


def config(path, subject, extensions, mask):
    """A configuration of openssl with this subject and these extensions."""
    names = "".join(f"{number}.{name} = {value}\n" for number, (name, value) in enumerate(subject))
    path.write_text(f"oid_section = oids\n[oids]\nwatchUid = {UID}\n[req]\nprompt = no\nutf8 = yes\nstring_mask = {mask}\ndistinguished_name = dn\n"
                    f"[dn]\n{names}\n[ext]\n{extensions}\n")


class Maker:
    def __init__(self, folder):
        self.dir = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.roots, self.cases = [], []

    def make(self, name, key="rsa:2048", subject=(("CN", "jane"), ("O", "devs")), ext="", by=None, days=36500, more=(), mask="utf8only"):
        """A certificate signed by another one, or by itself; without extensions it is of version 1."""
        conf, cert, request = (self.dir / f"{name}.{end}" for end in ("cnf", "crt", "csr"))
        config(conf, subject, ext, mask)
        newkey = key.split() if key.startswith("-") else ["-newkey", key]
        run("openssl", "req", "-new", "-nodes", *newkey, "-keyout", self.dir / f"{name}.key", "-config", conf, "-out", request)
        signer = ["-CA", self.dir / f"{by}.crt", "-CAkey", self.dir / f"{by}.key"] if by else ["-key", self.dir / f"{name}.key"]
        extensions = ["-extfile", conf, "-extensions", "ext"] if ext else []
        serial = [] if "-set_serial" in more else ["-set_serial", abs(hash(name)) % 10**9 + 1]
        run("openssl", "x509", "-req", "-in", request, *signer, *serial, "-days", days, *extensions, *more, "-out", cert)
        request.unlink()
        return cert.read_text()

    def root(self, name, subject=None, ext="basicConstraints=critical,CA:TRUE\nsubjectKeyIdentifier=hash", **how):
        pem = self.make(name, subject=subject or (("CN", name),), ext=ext, **how)
        self.roots.append(pem)
        return pem

    def case(self, name, chain=(), by="root", **how):
        if how.get("days", 1) is not None:
            self.make(name, by=by, **how)
        self.cases.append({"name": name, "chain": [name, *chain]})


def make(folder):
    m = Maker(folder)
    m.root("root")
    m.root("root-v1", ext="")
    m.root("root-p384", key=EC + "P-384")
    m.root("root-ed25519", key="ed25519")
    m.root("root-pss", key="-newkey rsa-pss")
    m.root("root-expired", days=-1)
    m.root("root-no-sign", ext="basicConstraints=critical,CA:TRUE\nkeyUsage=critical,digitalSignature")
    m.root("root-path-0", ext="basicConstraints=critical,CA:TRUE,pathlen:0\nsubjectKeyIdentifier=hash")
    m.root("root-no-basic", ext="subjectKeyIdentifier=hash")
    m.root("root-unknown", ext=f"basicConstraints=critical,CA:TRUE\n{UNKNOWN}=critical,DER:0500")
    m.root("root-names", ext="basicConstraints=critical,CA:TRUE\nnameConstraints=critical,permitted;DNS:good.example")
    m.root("root-dirnames", ext="basicConstraints=critical,CA:TRUE\nnameConstraints=critical,permitted;dirName:dir\n[dir]\nCN=x")
    m.root("root-server", ext="basicConstraints=critical,CA:TRUE\nextendedKeyUsage=serverAuth")
    m.root("root-policy", ext="basicConstraints=critical,CA:TRUE\npolicyConstraints=critical,requireExplicitPolicy:0")
    client = "extendedKeyUsage=clientAuth\n"
    for name, key in [("rsa-1024", "rsa:1024"), ("rsa-2048", "rsa:2048"), ("rsa-3072", "rsa:3072"), ("rsa-4096", "rsa:4096"), ("rsa-pss-key", "-newkey rsa-pss"),
                      ("p-224", EC + "secp224r1"), ("p-256", EC + "P-256"), ("p-384", EC + "P-384"), ("p-521", EC + "P-521"), ("secp256k1", EC + "secp256k1"),
                      ("brainpool", EC + "brainpoolP256r1"), ("ed25519", "ed25519"), ("ed448", "ed448")]:
        m.case(name, key=key, ext=client)
    for name, by in [("by-v1", "root-v1"), ("by-p384", "root-p384"), ("by-ed25519", "root-ed25519"), ("by-pss-key", "root-pss"), ("by-expired", "root-expired"),
                     ("by-no-sign", "root-no-sign"), ("by-path-0", "root-path-0"), ("by-no-basic", "root-no-basic"), ("by-unknown", "root-unknown"),
                     ("by-names", "root-names"), ("by-dirnames", "root-dirnames"), ("by-server", "root-server"), ("by-policy", "root-policy")]:
        m.case(name, by=by, ext=client)
    m.case("v1")
    m.case("v1-p256", key=EC + "P-256")
    m.case("v1-by-v1", by="root-v1")
    m.case("v1-expired", days=-1)
    m.case("v3-no-usage", ext="basicConstraints=CA:FALSE")
    m.case("expired", ext=client, days=-1)
    for hash_ in ["sha1", "sha384", "sha512", "md5", "sha224", "sha512-256"]:
        m.case(f"hash-{hash_}", ext=client, more=[f"-{hash_}"])
    m.case("hash-ecdsa-sha1", by="root-p384", ext=client, more=["-sha1"])
    m.case("hash-ecdsa-sha256", by="root-p384", ext=client, more=["-sha256"])
    m.case("hash-ecdsa-sha512", by="root-p384", ext=client, more=["-sha512"])
    pss = ["-sigopt", "rsa_padding_mode:pss"]
    for hash_, salt in [("sha256", 32), ("sha384", 48), ("sha512", 64), ("sha256", 20), ("sha1", 20)]:
        m.case(f"pss-{hash_}-{salt}", ext=client, more=[f"-{hash_}", *pss, "-sigopt", f"rsa_pss_saltlen:{salt}"])
    m.case("pss-mixed", ext=client, more=["-sha256", *pss, "-sigopt", "rsa_pss_saltlen:32", "-sigopt", "rsa_mgf1_md:sha512"])
    for usage in ["serverAuth", "clientAuth,serverAuth", "anyExtendedKeyUsage", "codeSigning", "1.2.3.4"]:
        m.case(f"usage-{usage}", ext=f"extendedKeyUsage={usage}")
    m.case("usage-critical", ext="extendedKeyUsage=critical,clientAuth")
    m.case("key-usage-encipher", ext=client + "keyUsage=critical,keyEncipherment")
    m.case("unknown-critical", ext=client + f"{UNKNOWN}=critical,DER:0500")
    m.case("unknown", ext=client + f"{UNKNOWN}=DER:0500")
    m.case("key-id-critical", ext=client + "subjectKeyIdentifier=critical,hash")
    m.case("info-access-critical", ext=client + "authorityInfoAccess=critical,OCSP;URI:http://a")
    m.case("crl-critical", ext=client + "crlDistributionPoints=critical,URI:http://a")
    m.case("policies-critical", ext=client + "certificatePolicies=critical,1.2.3.4")
    m.case("names-other-critical", ext=client + "subjectAltName=critical,RID:1.2.3")
    m.case("names-dns-critical", ext=client + "subjectAltName=critical,DNS:a.example")
    m.case("names-good", by="root-names", ext=client + "subjectAltName=DNS:a.good.example")
    m.case("names-bad", by="root-names", ext=client + "subjectAltName=DNS:bad.example")
    m.case("names-other-kind", by="root-names", ext=client + "subjectAltName=email:a@bad.example")
    m.case("ip-malformed", ext=client + "subjectAltName=DER:30038701aa")
    m.case("is-authority", ext=client + "basicConstraints=critical,CA:TRUE")
    m.case("serial-negative", ext=client, more=["-set_serial", "-5"])
    m.case("serial-zero", ext=client, more=["-set_serial", "0"])
    m.case("serial-long", ext=client, more=["-set_serial", "0x" + "7f" * 30])
    # Subjects.
    many = tuple(("O", f"g{number}") for number in range(30)) + tuple(("OU", f"u{number}") for number in range(30))
    for name, subject in [
        ("no-cn", (("O", "devs"),)), ("only-cn", (("CN", "jane"),)), ("two-cns", (("CN", "first"), ("CN", "second"))), ("many", (("CN", "jane"), *many)),
        ("group-twice", (("CN", "jane"), ("O", "a"), ("O", "a"))), ("one-set", (("CN", "jane"), ("+O", "devs"))), ("uid", (("CN", "jane"), ("watchUid", "u-1"))),
        ("two-uids", (("CN", "jane"), ("watchUid", "u-1"), ("watchUid", "u-2"))), ("odd-name", (("CN", "a/b:c d*&"),)), ("mail", (("CN", "jane"), ("emailAddress", "j@example"))),
        ("system-user", (("CN", "system:anonymous"), ("O", "system:unauthenticated"))), ("country", (("C", "DE"), ("CN", "jane"), ("L", "x"), ("ST", "y"))),
    ]:
        m.case(f"subject-{name}", subject=subject, ext=client)
    name = (("CN", "jané"), ("O", "dévs"))
    for mask, bits in [("utf8", "MASK:0x2000"), ("t61", "MASK:0x4"), ("bmp", "MASK:0x800"), ("default", "default")]:
        m.case(f"text-{mask}", subject=name, ext=client, mask=bits)
        m.case(f"text-{mask}-v1", subject=name, mask=bits)
    for mask, bits in [("printable", "MASK:0x2"), ("t61-ascii", "MASK:0x4"), ("bmp-ascii", "MASK:0x800")]:
        m.case(f"text-{mask}", ext=client, mask=bits)
    m.case("text-bmp-east", subject=(("CN", "日本"),), ext=client, mask="MASK:0x800")
    # Chains.
    authority = "basicConstraints=critical,CA:TRUE\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid"
    for name, by, ext in [("between", "root", authority), ("between-v1", "root", ""), ("between-no-basic", "root", "subjectKeyIdentifier=hash"),
                          ("between-false", "root", "basicConstraints=CA:FALSE"), ("between-path-0", "root", authority.replace("TRUE", "TRUE,pathlen:0")),
                          ("between-server", "root", authority + "\nextendedKeyUsage=serverAuth"), ("between-too-deep", "root-path-0", authority),
                          ("between-no-sign", "root", authority + "\nkeyUsage=critical,cRLSign"), ("between-expired", "root", authority)]:
        m.make(name, subject=(("CN", name),), by=by, ext=ext, days=-1 if name.endswith("expired") else 36500)
        m.case(f"through-{name}", chain=[name], by=name, ext=client)
    m.make("second", subject=(("CN", "second"),), by="between", ext=authority)
    m.case("through-two", chain=["second", "between"], by="second", ext=client)
    m.case("through-two-turned", chain=["between", "second"], by="second", ext=client)
    m.case("through-one-missing", chain=["second"], by="second", ext=client)
    m.make("below-path-0", subject=(("CN", "below-path-0"),), by="between-path-0", ext=authority)
    m.case("through-below-path-0", chain=["below-path-0", "between-path-0"], by="below-path-0", ext=client)
    m.case("with-root", chain=["root"], ext=client)
    m.case("with-stranger", chain=["ed25519"], ext=client)
    # Not signed by any of them, or by themselves.
    m.make("stranger", subject=(("CN", "stranger"),), ext=authority.replace("authorityKeyIdentifier=keyid", ""))
    m.case("by-stranger", by="stranger", ext=client)
    m.make("impostor", subject=(("CN", "root"),), ext="basicConstraints=critical,CA:TRUE\nsubjectKeyIdentifier=hash")
    m.case("by-impostor", by="impostor", ext=client)
    m.case("self-unknown", by=None, ext=client)
    for name, ext in [("self-authority", "basicConstraints=critical,CA:TRUE"), ("self-leaf", "basicConstraints=critical,CA:FALSE"), ("self-v1", ""),
                      ("self-server", "extendedKeyUsage=serverAuth")]:
        m.case(name, by=None, ext=ext)
        m.roots.append((folder / f"{name}.crt").read_text())
    # Lines that end as on Windows, and text between.
    half = len(m.roots) // 2
    text = "some text\n" + "".join(m.roots[:half]) + "\n# more\n" + "".join(root.replace("\n", "\r\n") for root in m.roots[half:])
    (folder / "authorities.crt").write_bytes(text.encode())
    (folder / "cases.json").write_text(json.dumps(m.cases))


def ask(folder, url, case, tls="1.3"):
    chain = folder / "chain.pem"
    chain.write_text("".join((folder / f"{name}.crt").read_text() for name in case["chain"]))
    review = '{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
    # What the client itself would refuse to use.
    lax = folder / "lax.cnf"
    lax.write_text("openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nCipherString = DEFAULT@SECLEVEL=0\n")
    done = subprocess.run(["curl", "-sk", "--tls-max", tls, f"--tlsv{tls}", "--cert", chain, "--key", folder / f"{case['chain'][0]}.key", "-H",
                           "Content-Type: application/json", "-d", review, "-w", "\n%{http_code}", f"{url}/apis/authentication.k8s.io/v1/selfsubjectreviews"],
                          capture_output=True, text=True, env=os.environ | {"OPENSSL_CONF": str(lax)})
    body, _, code = done.stdout.rpartition("\n")
    answer = json.loads(body) if body else {}
    info = answer.get("status", {})
    user = info.get("userInfo") if isinstance(info, dict) else None
    return {"code": int(code), "user": user}


def main():
    mode, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    if mode == "make":
        return make(folder)
    url, cases = sys.argv[3], json.loads((folder / "cases.json").read_text())
    for case in cases:
        case |= ask(folder, url, case)
        case["tls12"] = ask(folder, url, case, "1.2")["code"]
        print(case["name"], case["code"], case["tls12"], json.dumps(case["user"], ensure_ascii=False))
    if mode == "record":
        for case in cases:
            case["chain"] = ["".join((folder / f"{name}.crt").read_text()) for name in case["chain"]]
        recorded = {"at": int(time.time()), "authorities": (folder / "authorities.crt").read_bytes().decode(), "cases": cases}
        (pathlib.Path(__file__).parent / "cases.json").write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")


main()
