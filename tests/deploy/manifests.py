"""Checks of deploy/kubernetes and deploy/helm. Called by tests/deploy/main.rs, each check by its name."""

import json
import re
import sys
from pathlib import Path

import kubernetes_validate
import kustomize
import yaml
from helm_python import HelmValuesError
from helm_python.chart import Chart, lint

try:
    import tomllib
except ImportError:  # Python 3.10
    sys.exit("Python 3.11 or newer is needed")

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "deploy/kubernetes"
CHART = ROOT / "deploy/helm/farmhand"
DIRECTORIES = ["base", "migrate", "jobs", "overlays/example"]
# The oldest that Chart.yaml admits, and the newest that this kubernetes-validate knows.
VERSIONS = ["1.27", "1.37"]
HELLO = (KUBERNETES / "jobs/hello.toml").read_text()
AS_KUSTOMIZE = {"podMonitor": {"enabled": True}, "jobs": {"hello.toml": HELLO}}
VARIANTS = {
    "defaults": {},
    "as the base": AS_KUSTOMIZE,
    "with users": {**AS_KUSTOMIZE, "users": True, "policy": {"users": ["farmhand", "nobody"]}, "prune": True, "addressSuffix": "-a"},
    "with as little as possible": {
        "migrate": False,
        "tolerations": [],
        "nodeSelector": {},
        "resources": {},
        "labels": {},
        "topologyLabels": {},
        "priorityClass": {"create": False, "name": ""},
        "podDisruptionBudget": {"enabled": False},
    },
    "with as much as possible": {
        **AS_KUSTOMIZE,
        "image": {"repository": "registry.example.com/farmhand", "tag": "1.2.3", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "fullnameOverride": "batch",
        "config": {"log": "debug", "notify": "off", "stopTimeoutSeconds": 3600},
        "labels": {"role": "batch"},
        "affinity": {"nodeAffinity": {}},
        "maxUnavailable": "10%",
        "podLabels": {"team": "ops"},
        "podAnnotations": {"note": "a \"quoted\" one"},
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
        "extraVolumes": [{"name": "scratch", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    },
}
REFUSED = {
    "an unknown key": {"usres": True},
    "an unknown key below": {"config": {"slot": 1}},
    "no slots": {"config": {"slots": 0}},
    "a URL": {"database": {"url": "postgresql://farmhand:secret@db/farmhand"}},
    "a percentage of pods that no budget takes": {"podDisruptionBudget": {"minAvailable": "50%"}},
    "a label that --label could not say": {"labels": {"a=b": "c"}},
    "a job file that apply would pass over": {"jobs": {"hello.txt": HELLO}},
    "a farm without a name in Prometheus": {"podMonitor": {"job": ""}},
    "a reference in the farm's name": {"podMonitor": {"job": "$1"}},
}


def chart(values):
    rendered = Chart.load(CHART).render(values, name="farmhand", namespace="farmhand")
    return [
        document
        for path, text in sorted(rendered.items())
        if not path.endswith(".txt")
        for document in kustomize.documents(text)
    ]


def validate(what, objects):
    for each in objects:
        if each["kind"] == "PodMonitor":
            # The operator's own kind; nothing here knows its schema. Its keys are few, and checked by hand.
            assert each["apiVersion"] == "monitoring.coreos.com/v1"
            assert set(each["spec"]) == {"selector", "podMetricsEndpoints"}
            continue
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(each, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                sys.exit(f"{what}: {each['kind']} for Kubernetes {version}: {list(error.path)}: {error.message}")


def seconds(duration):
    number, unit = re.fullmatch(r"(\d+)([smh])", duration).groups()
    return int(number) * {"s": 1, "m": 60, "h": 3600}[unit]


def leaves_time(what, objects):
    """What the pod is given is more than what its agent takes, and a drained agent's kill has its time too."""
    grace = kustomize.find(objects, "DaemonSet", names(objects, "DaemonSet")[0])["spec"]["template"]["spec"]
    text = next(o["data"]["agent.toml"] for o in objects if o["kind"] == "ConfigMap" and "agent.toml" in o["data"])
    stop = seconds(tomllib.loads(text)["stop_timeout"])
    assert grace["terminationGracePeriodSeconds"] >= stop + 30, f"{what}: killed before it has drained"


def names(objects, kind):
    return [o["metadata"]["name"] for o in objects if o["kind"] == kind]


def kustomizations():
    """Every directory renders, is valid, and every file is part of one."""
    used = [KUBERNETES / "secret.example.yaml"]
    validate("secret.example.yaml", kustomize.documents(used[0].read_text()))
    for name in DIRECTORIES:
        objects, files = kustomize.build(KUBERNETES / name, [], [])
        used += files
        validate(name, objects)
        if "DaemonSet" in [o["kind"] for o in objects]:
            leaves_time(name, objects)
        real = kustomize.by_kubectl(KUBERNETES / name)
        if real is not None:
            validate(name, real)
            assert canonical(objects) == canonical(real), f"{name}: kubectl renders it otherwise"
    lost = {p for p in KUBERNETES.rglob("*") if p.is_file()} - {p.resolve() for p in used}
    assert not lost, f"part of no kustomization: {sorted(map(str, lost))}"


def canonical(objects):
    """In one order, without the hashes that kustomize adds to names."""
    objects = json.loads(re.sub(r"(farmhand-agent)-[0-9a-z]{10}", r"\1", json.dumps(objects)))
    for each in objects:
        pod = each.get("spec", {}).get("template", {}).get("spec", {})
        pod.get("volumes", []).sort(key=lambda volume: volume["name"])
        for container in pod.get("containers", []):
            container.get("volumeMounts", []).sort(key=lambda mount: mount["mountPath"])
            # Those that refer to others come after them in the files; kustomize puts what a patch adds first.
            container.get("env", []).sort(key=lambda variable: variable["name"])
    return sorted(json.dumps(o, sort_keys=True) for o in objects)


def helm():
    """The chart passes the linter, refuses what it does not know, and is valid whatever its values."""
    for what, values in VARIANTS.items():
        report = lint(CHART, values, strict=True, namespace="farmhand")
        bad = [m for m in report["messages"] if m["severity"] > 1]
        assert not bad and not report["errors"], f"{what}: {report}"
        objects = chart(values)
        validate(what, objects)
        leaves_time(what, objects)
    objects = chart({**AS_KUSTOMIZE, "database": {"migrationSecret": "owner", "jobsSecret": "operator"}})
    for name, secret in (("farmhand-migrate", "owner"), ("farmhand-jobs", "operator")):
        job = next(o for o in objects if o["kind"] == "Job" and o["metadata"]["name"] == name)
        env = job["spec"]["template"]["spec"]["containers"][0]["env"]
        assert env[0]["valueFrom"]["secretKeyRef"]["name"] == secret, f"{name} uses another login"
    for what, values in REFUSED.items():
        try:
            chart(values)
        except HelmValuesError:
            continue
        sys.exit(f"the chart takes {what}")


HELMS_OWN = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
    "helm.sh/hook",
    "helm.sh/hook-delete-policy",
    "checksum/config",
]


def plain(value):
    """Without what Helm needs for itself, and configuration as what it means."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {k: plain(v) for k, v in value.items() if k not in HELMS_OWN}
    for name in ("agent.toml", "policy.toml"):
        if name in kept:
            kept[name] = tomllib.loads(kept[name])
    return {k: v for k, v in kept.items() if k != "annotations" or v}


def sources():
    """Two releases in one database: each prunes its own jobs."""
    applied = set()
    for release in ("batch", "web"):
        rendered = Chart.load(CHART).render({**AS_KUSTOMIZE, "prune": True}, name=release, namespace="farmhand")
        objects = [o for path, text in rendered.items() if not path.endswith(".txt") for o in kustomize.documents(text)]
        job = next(o for o in objects if o["kind"] == "Job" and o["metadata"]["name"].endswith("-jobs"))
        applied.add(tuple(job["spec"]["template"]["spec"]["containers"][0]["args"]))
    assert len(applied) == 2, "two releases have one source, and each prunes the other's jobs"


def relabeled(objects, pod):
    """What Prometheus makes of a pod's labels by its PodMonitor; without a rule for it, `job` is the monitor's own name."""
    monitor = next(o for o in objects if o["kind"] == "PodMonitor")
    labels = {}
    for rule in monitor["spec"]["podMetricsEndpoints"][0]["relabelings"]:
        source = ";".join(pod[name] for name in rule.get("sourceLabels", []))
        labels[rule["targetLabel"]] = rule.get("replacement", "$1").replace("${1}", source).replace("$1", source)
    return labels


def monitors():
    """Each farm of a cluster has its `job`, each agent of a farm its `instance`."""
    pod = {"__meta_kubernetes_pod_node_name": "node-1"}
    farmhand = {"job": "farmhand", "instance": "node-1"}
    objects = kustomize.render(KUBERNETES / "components/monitoring")
    assert relabeled(objects, pod) == farmhand, relabeled(objects, pod)
    for values, labels in (
        ({}, farmhand),
        ({"podMonitor": {"enabled": True, "job": "billing"}}, {**farmhand, "job": "billing"}),
        ({"addressSuffix": "-a"}, {**farmhand, "instance": "node-1-a"}),
    ):
        found = relabeled(chart({**AS_KUSTOMIZE, **values}), pod)
        assert found == labels, f"{values}: {found}"


def twins():
    """Helm and Kustomize say the same."""
    pairs = [
        (AS_KUSTOMIZE, ["base", "components/monitoring", "migrate", "jobs"]),
        ({**AS_KUSTOMIZE, "users": True}, ["base", "components/monitoring", "components/users", "migrate", "jobs"]),
    ]
    for values, directories in pairs:
        objects = []
        for name in directories:
            kustomize.build(KUBERNETES / name, objects, [])
        ours = {(o["kind"], o["metadata"]["name"]): plain(o) for o in objects}
        theirs = {(o["kind"], o["metadata"]["name"]): plain(o) for o in chart(values)}
        # A release does not make its namespace.
        del ours["Namespace", "farmhand"]
        assert set(ours) == set(theirs), f"{sorted(ours)} and {sorted(theirs)}"
        for key, one in ours.items():
            two = theirs[key]
            assert one == two, f"{key}:\n{yaml.dump(one)}\nand in the chart\n{yaml.dump(two)}"


def pod():
    """For the test that runs an agent with it: what a pod of each way of deploying gives its agent."""
    ways = {name: kustomize.render(KUBERNETES / name) for name in DIRECTORIES if name not in ("migrate", "jobs")}
    ways |= {f"chart {what}": chart(values) for what, values in VARIANTS.items()}
    found = []
    for what, objects in ways.items():
        template = next(o for o in objects if o["kind"] == "DaemonSet")["spec"]["template"]
        agent = template["spec"]["containers"][0]
        data = next(o["data"] for o in objects if o["kind"] == "ConfigMap" and "agent.toml" in o["data"])
        probes = {agent[p]["httpGet"]["path"] for p in ("startupProbe", "livenessProbe", "readinessProbe")}
        found.append(
            {
                "what": what,
                "args": agent["args"],
                "env": {e["name"]: e.get("value", e.get("valueFrom")) for e in agent["env"]},
                "files": data,
                "probes": sorted(probes),
                "capabilities": agent["securityContext"]["capabilities"].get("add", []),
            }
        )
    print(json.dumps(found))


CHECKS = {check.__name__: check for check in (kustomizations, helm, sources, monitors, twins, pod)}

if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        CHECKS[wanted]()
