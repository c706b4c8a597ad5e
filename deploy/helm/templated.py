"""Manifests with template expressions of Helm in place of what installations choose.

Expressions stand as marks (`<<...>>`) while a manifest is plain values, and are written out in its text.
"""

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

type Object = dict[str, Any]

_MARK = re.compile(r"<<(.+?)>>")
_BLOCK = re.compile(r"^( *)(\w+): '?<<BLOCK (.+?)>>'?$", re.MULTILINE)
_OPTIONAL = re.compile(r"^( *)- name: <<(\w+)>>$", re.MULTILINE)
_WHOLE = re.compile(r"^( *)(- )?((?:[\w.-]+: )?)'<<([^'>]+)>>'$", re.MULTILINE)

_TAG = ".Values.image.tag | default .Chart.AppVersion"

_TEXTS = {
    "registry.example.com/pallas/": "<<.Values.image.registry>>/",
    ":0.1.0": f":<<{_TAG}>>",
    "nats:2.15.1-alpine": "<<.Values.broker.image>>",
    "redis:8.2-alpine": "<<.Values.redis.image>>",
    "https://library.pallas.example.com": "<<.Values.urls.library>>",
    "https://pipelines.pallas.example.com": "<<.Values.urls.pipelines>>",
    "https://agents.pallas.example.com": "<<.Values.urls.agents>>",
    "https://console.pallas.example.com": "<<.Values.urls.console>>",
    "https://pallas.example.com": "<<.Values.urls.platform>>",
    "https://coder.example.com": "<<.Values.urls.coder>>",
    "health-monitor.pallas.svc": "health-monitor.<<.Release.Namespace>>.svc",
    "/clustered.conf": "/<<if eq (int .Values.broker.replicas) 1>>guarded<<else>>clustered<<end>>.conf",
}
"""What the overlay has as an example or for its own size, and the value instead."""

_VARIABLES = {
    "PALLAS_GATEWAY_AUTH": "<<.Values.auth | quote>>",
    "PALLAS_STREAM_REPLICAS": "<<.Values.broker.replicas | quote>>",
    "PALLAS_SLOTS": "<<.Values.workers.slots | quote>>",
    "PALLAS_TRUSTED_PROXIES": "<<.Values.networks.proxies | quote>>",
    "PALLAS_FLEET_ALLOW": "<<.Values.fleet.allow | quote>>",
    "PALLAS_FLEET_OPERATORS": "<<.Values.fleet.operators | quote>>",
    "GOMEMLIMIT": "<<.Values.broker.goMemoryLimit | quote>>",
}

_ITEMS = {
    "OFF": ('eq .Values.auth "off"', ("name: PALLAS_ALLOW_UNAUTHENTICATED", 'value: "true"')),
    "PRICES": (".Values.prices", ("name: PALLAS_PRICES", "value: /etc/pallas/prices.yaml")),
    "MOUNT": (".Values.prices", ("name: prices", "mountPath: /etc/pallas", "readOnly: true")),
    "VOLUME": (
        ".Values.prices",
        ("name: prices", "configMap: {name: 'prices-{{ toYaml .Values.prices | sha256sum | trunc 8 }}'}"),
    ),
}
"""Items of lists that are there only for some values: on which condition, and their lines."""

_SECRETS = {"pallas": "<<.Values.secrets.services>>", "broker": "<<.Values.secrets.broker>>"}

_OF_THE_IMAGE = f'<<printf "%s:%s" .Values.image.registry ({_TAG}) | sha256sum | trunc 8>>'
"""A part of names of Jobs, which cannot be changed: those of another image have another name."""


def template_of(manifest: Object) -> str:
    """The text of a manifest as a template."""
    return _text(_marked(manifest))


def _marked(manifest: Object) -> Object:
    """The manifest with marks in place of values."""
    made = copy.deepcopy(manifest)
    made["metadata"]["namespace"] = "<<.Release.Namespace>>"
    name, spec = made["metadata"]["name"], made.get("spec", {})
    match made["kind"]:
        case "Job":
            made["metadata"]["name"] += f"-{_OF_THE_IMAGE}"
        case "HorizontalPodAutoscaler":
            spec |= {"minReplicas": "<<.Values.gateways.min>>", "maxReplicas": "<<.Values.gateways.max>>"}
        case "ScaledObject":
            spec |= {"minReplicaCount": "<<.Values.workers.min>>", "maxReplicaCount": "<<.Values.workers.max>>"}
            spec["triggers"][0]["metadata"]["targetValue"] = "<<.Values.workers.slots | quote>>"
        case "StatefulSet":
            spec["replicas"] = "<<.Values.broker.replicas>>"
            claim = spec["volumeClaimTemplates"][0]["spec"]
            claim["resources"]["requests"]["storage"] = "<<.Values.broker.storage>>"
            claim["storageClassName"] = "<<CLASS>>"
        case "Deployment" if "replicas" in spec and name not in ("redis", "health-monitor"):
            spec["replicas"] = f'<<index .Values.replicas "{name}">>'
        case "NetworkPolicy":
            _networks(made)
        case _:
            pass
    if made["kind"] in ("Deployment", "StatefulSet", "Job"):
        _pod(spec["template"]["spec"], name if made["kind"] != "Job" else None)
    return made


def _pod(pod: Object, name: str | None) -> None:
    [container] = pod["containers"]
    if name is not None:
        container["resources"] = f'<<BLOCK index .Values.resources "{name}">>'
    variables = container.get("env", [])
    for variable in variables:
        if mark := _VARIABLES.get(variable["name"]):
            variable["value"] = mark
    if any(each["name"] == "PALLAS_GATEWAY_AUTH" for each in variables):
        variables.append({"name": "<<OFF>>"})
    if name == "agent-worker":
        for items, item in ((variables, "PRICES"), (container["volumeMounts"], "MOUNT"), (pod["volumes"], "VOLUME")):
            items.append({"name": f"<<{item}>>"})
    if variables:
        container["env"] = variables
    for secret in _secrets(pod):
        key = "name" if "name" in secret else "secretName"
        secret[key] = _SECRETS.get(secret[key], secret[key])


def _secrets(pod: Object) -> Iterator[Object]:
    for volume in pod.get("volumes", ()):
        for source in volume.get("projected", {}).get("sources", [volume]):
            if "secret" in source:
                yield source["secret"]


def _networks(policy: Object) -> None:
    """The networks and namespaces of others."""
    for way, peers in (("ingress", "from"), ("egress", "to")):
        for peer in (peer for rule in policy["spec"].get(way, ()) for peer in rule.get(peers, ())):
            labels = peer.get("namespaceSelector", {}).get("matchLabels", {})
            for label, value in labels.items():
                if value in ("monitoring", "keda"):
                    labels[label] = f"<<.Values.namespaces.{value}>>"
            block = peer.get("ipBlock", {})
            if block.get("cidr") == "10.0.0.0/8":
                block["cidr"] = "<<.Values.networks.postgres>>"
            elif block.get("cidr") == "192.0.2.10/32":
                block["cidr"] = "<<.Values.networks.coder>>"


def _item(indent: str, condition: str, lines: Sequence[str]) -> str:
    item = f"\n{indent}  ".join(lines)
    return f"{indent}{{{{- if {condition} }}}}\n{indent}- {item}\n{indent}{{{{- end }}}}"


def _text(made: Object) -> str:
    text = yaml.safe_dump(made, sort_keys=False, width=1000)
    for example, mark in _TEXTS.items():
        text = text.replace(example, mark)
    text = _BLOCK.sub(lambda it: f"{it[1]}{it[2]}: {{{{- toYaml ({it[3]}) | nindent {len(it[1]) + 2} }}}}", text)
    text = _OPTIONAL.sub(lambda it: _item(it[1], *_ITEMS[it[2]]), text)
    text = re.sub(
        r"^( *)storageClassName: <<CLASS>>$",
        r"\1{{- with .Values.broker.storageClass }}\n\1storageClassName: {{ . }}\n\1{{- end }}",
        text,
        flags=re.MULTILINE,
    )
    text = _WHOLE.sub(r"\1\2\3<<\4>>", text)
    return _MARK.sub(r"{{ \1 }}", text)
