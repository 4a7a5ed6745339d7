"""What `kubectl kustomize` makes of the directories in deploy/kubernetes, for machines without a kubectl.

It knows what the files there use and refuses everything else. Where there is a kubectl, manifests.py compares the two.
"""

import json
import shutil
import subprocess
from pathlib import Path

import yaml

KNOWN = {"apiVersion", "kind", "resources", "components", "configMapGenerator", "images", "patches"}


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document]


def by_kubectl(directory):
    """Rendered by the real thing; None when there is none, or one from before kustomize 5."""
    if not shutil.which("kubectl"):
        return None
    version = subprocess.run(
        ["kubectl", "version", "--client", "-o", "json"], capture_output=True, text=True, check=True
    )
    number = json.loads(version.stdout).get("kustomizeVersion", "v0").lstrip("v").split(".")[0]
    if int(number) < 5:
        return None
    return documents(
        subprocess.run(
            ["kubectl", "kustomize", str(directory)], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    )


def render(directory):
    objects, _ = build(Path(directory), [], [])
    return objects


def build(directory, objects, used):
    """Adds what a directory says to what others have said; `used` are the files that it takes part in."""
    source = directory / "kustomization.yaml"
    used.append(source)
    wanted = yaml.safe_load(source.read_text())
    unknown = set(wanted) - KNOWN
    assert not unknown, f"{source}: teach kustomize.py {sorted(unknown)}, or leave them out"
    for name in wanted.get("resources", []):
        path = directory / name
        if path.is_dir():
            build(path, objects, used)
        else:
            used.append(path)
            objects += documents(path.read_text())
    for entry in wanted.get("configMapGenerator", []):
        generate(directory, entry, objects, used)
    for name in wanted.get("components", []):
        build(directory / name, objects, used)
    for patch in wanted.get("patches", []):
        path = directory / patch["path"]
        used.append(path)
        for change in documents(path.read_text()):
            target = find(objects, change["kind"], change["metadata"]["name"])
            merge(target, change)
    for image in wanted.get("images", []):
        for container in containers(objects):
            name, _, tag = container["image"].partition(":")
            if name == image["name"]:
                container["image"] = f"{image.get('newName', name)}:{image.get('newTag', tag)}"
    return objects, used


def generate(directory, entry, objects, used):
    paths = [directory / name for name in entry["files"]]
    used += paths
    data = {path.name: path.read_text() for path in paths}
    if entry.get("behavior") == "merge":
        find(objects, "ConfigMap", entry["name"])["data"].update(data)
        return
    metadata = {"name": entry["name"], "namespace": entry["namespace"]}
    metadata["labels"] = entry.get("options", {}).get("labels", {})
    objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def find(objects, kind, name):
    return next(o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name)


def containers(objects):
    for each in objects:
        pod = each.get("spec", {}).get("template", {}).get("spec", {})
        yield from pod.get("initContainers", []) + pod.get("containers", [])


def merge(target, change):
    """A strategic merge: objects by key, lists of named things by name (mounts by path), other lists as a whole."""
    for key, value in change.items():
        old = target.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            merge(old, value)
        elif named(value) and named(old):
            by = "mountPath" if key == "volumeMounts" else "name"
            for item in value:
                match = next((o for o in old if o[by] == item[by]), None)
                if match is None:
                    old.append(item)
                else:
                    merge(match, item)
        else:
            target[key] = value


def named(value):
    return isinstance(value, list) and all(isinstance(item, dict) and "name" in item for item in value)
