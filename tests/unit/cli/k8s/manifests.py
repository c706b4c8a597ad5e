"""Small manifests and team folders for the tests of `pallas k8s`."""

from pathlib import Path
from typing import Any

import yaml

AGENT = "{{title: {name}, description: One., model: offline, instruction: Hello.}}"

MANIFESTS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: agent-worker, namespace: there, annotations: {pallas.dev/for-each: team}}
spec:
  selector: {matchLabels: {name: agent-worker}}
  template:
    metadata: {labels: {name: agent-worker}}
    spec:
      containers:
        - name: service
          image: example.com:5000/pallas/agent-worker:1
          args: [agent_worker]
          env: [{name: PALLAS_TEAMS, value: /teams/team}, {name: PALLAS_SLOTS, value: "64"}]
          volumeMounts: [{name: secrets, mountPath: /run/secrets}, {name: team, mountPath: /teams/team}]
      volumes:
        - name: secrets
          projected:
            sources: [{secret: {name: pallas}}, {secret: {name: agent-worker}}]
        - name: team
          projected: {sources: [{configMap: {name: team}}]}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: agent-worker, namespace: there, annotations: {pallas.dev/for-each: team}}
spec:
  scaleTargetRef: {name: agent-worker}
  triggers: [{metadata: {valueLocation: 'wanted{team="team"}', targetValue: "64"}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: health-monitor, namespace: there}
spec:
  template:
    spec:
      containers:
        - name: service
          env: [{name: PALLAS_TEAMS, value: /teams/team}]
          volumeMounts: [{name: team, mountPath: /teams/team}]
      volumes: [{name: team, projected: {sources: [{configMap: {name: team}}]}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: registry, namespace: there}
spec: {template: {spec: {containers: [{name: service}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: agent-gateway, namespace: there}
spec:
  template:
    spec: {containers: [{name: service, env: [{name: PALLAS_PUBLIC_URL, value: "https://agents.example.com"}]}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, namespace: there}
spec: {template: {spec: {containers: [{name: service, image: "one:1"}]}}}
"""


def manifests() -> list[Any]:
    """Workers, their scaler, something that reads all teams, something that reads none, the gateway, and a Job."""
    return list(yaml.safe_load_all(MANIFESTS))


def a_team(folder: Path, name: str, *agents: str, **files: str) -> Path:
    """A team folder. `files` are more files, with `__` for a slash and `_` before the suffix for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"  {agent}: {AGENT.format(name=agent)}" for agent in agents]
    (folder / "agents.yaml").write_text("\n".join((f"name: {name}", "agents:", *lines)), "utf-8")
    for path, text in files.items():
        place = folder / path.replace("__", "/").replace("_", ".")
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, "utf-8")
    return folder
