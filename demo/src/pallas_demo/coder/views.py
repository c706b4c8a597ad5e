"""How Coder shows what the stand-in knows: the JSON of its answers, with the fields that recorded answers have."""

from typing import Any

from pallas_demo.coder.settings import StandInSettings
from pallas_demo.coder.world import (
    APP,
    ORGANISATION,
    TEMPLATES,
    USER,
    USER_NAME,
    AppStatus,
    Build,
    Parameter,
    Template,
    Workspace,
    World,
    derived,
)

type Json = dict[str, Any]

EPOCH = "2025-09-12T15:25:58.408615Z"
NIL = "00000000-0000-0000-0000-000000000000"
AVATAR = "https://example.com/avatar.png"
NO_PARAMETER = 30
"""The release since which Coder gives prompts to tasks only."""

NO_TASKS = 37
"""The release since which it has chats in place of tasks."""

_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


def organisation() -> Json:
    """The one organisation."""
    return {
        "id": ORGANISATION, "name": "coder", "display_name": "Coder", "icon": "", "is_default": True,
        "description": "Builtin default organization.", "created_at": EPOCH, "updated_at": EPOCH,
    }  # fmt: skip


def user() -> Json:
    """The one user."""
    return {
        "id": USER, "username": USER_NAME, "name": "Owner", "email": "owner@example.com", "avatar_url": AVATAR,
        "created_at": EPOCH, "updated_at": EPOCH, "last_seen_at": EPOCH, "status": "active", "login_type": "password",
        "theme_preference": "", "organization_ids": [ORGANISATION],
        "roles": [{"name": "owner", "display_name": "Owner"}],
    }  # fmt: skip


def version_of(release: int) -> str:
    """The version of a release of Coder 2."""
    return f"v2.{release}.0+pallas-demo-stand-in"


def build_info(world: World, url: str, release: int) -> Json:
    """What `/buildinfo` says."""
    return {
        "version": version_of(release), "dashboard_url": url, "external_url": "https://example.com/not-coder",
        "telemetry": False, "deployment_id": world.deployment, "agent_api_version": "1.0",
        "provisioner_api_version": "1.11", "upgrade_message": "", "workspace_proxy": False, "webpush_public_key": "",
    }  # fmt: skip


def template(one: Template, users: int) -> Json:
    """A template."""
    times = {"P50": 300, "P95": 300}
    return {
        "id": one.id, "created_at": EPOCH, "updated_at": EPOCH, "name": one.name, "display_name": one.title,
        "organization_id": ORGANISATION, "organization_name": "coder", "organization_display_name": "Coder",
        "organization_icon": "", "provisioner": "terraform", "active_version_id": one.version,
        "active_user_count": users, "build_time_stats": {"start": times, "stop": times, "delete": times},
        "description": one.description, "deprecated": False, "deprecation_message": "", "icon": "",
        "default_ttl_ms": 0, "activity_bump_ms": 3600000, "failure_ttl_ms": 0, "time_til_dormant_ms": 0,
        "time_til_dormant_autodelete_ms": 0, "autostop_requirement": {"days_of_week": [], "weeks": 1},
        "autostart_requirement": {"days_of_week": _DAYS}, "created_by_id": USER, "created_by_name": USER_NAME,
        "allow_user_autostart": True, "allow_user_autostop": True, "allow_user_cancel_workspace_jobs": False,
        "require_active_version": False, "max_port_share_level": "public", "cors_behavior": "simple",
        "use_classic_parameter_flow": False,
    }  # fmt: skip


def parameter(one: Parameter) -> Json:
    """A rich parameter of a template version."""
    title = {} if one.name == "AI Prompt" else {"display_name": one.name.replace("_", " ").title()}
    options = [{"name": value, "description": "", "value": value, "icon": ""} for value in one.options]
    return title | {
        "name": one.name, "description": one.description, "description_plaintext": one.description, "type": "string",
        "form_type": one.form, "mutable": one.form == "input", "default_value": "", "icon": "", "options": options,
        "required": False, "ephemeral": False,
    }  # fmt: skip


def presets(one: Template, lower: bool) -> list[Json]:
    """The presets of a template version. Real answers spell the keys in capitals, the OpenAPI document does not."""
    found: list[Json] = [
        {
            "ID": preset.id, "Name": preset.name, "Default": preset.default, "DesiredPrebuildInstances": 0,
            "Description": "", "Icon": "",
            "Parameters": [_spelt({"Name": name, "Value": value}, lower) for name, value in preset.parameters.items()],
        }
        for preset in one.presets
    ]  # fmt: skip
    return [_spelt(preset, lower) for preset in found]


def _spelt(found: Json, lower: bool) -> Json:
    return {"id" if name == "ID" else name[0].lower() + name[1:]: found[name] for name in found} if lower else found


def build(workspace: Workspace, one: Build, agent: Json | None, release: int) -> Json:
    """A build; `agent` is the workspace agent if the build has one that is on."""
    job = derived(one.id, "job")
    times = {name: value for name in ("started_at", "completed_at") if (value := getattr(one, name))}
    extra: Json = {"error": one.error} if one.error else {}
    if one.started_at:
        extra["worker_id"] = derived("worker")
    found: Json = {
        "id": one.id, "created_at": one.created_at, "updated_at": one.completed_at or one.created_at,
        "workspace_id": workspace.id, "workspace_name": workspace.name, "workspace_owner_id": USER,
        "workspace_owner_name": USER_NAME, "workspace_owner_avatar_url": AVATAR, "template_version_id": one.version,
        "template_version_name": "demo_stand1" if one.completed_at else "", "build_number": one.number,
        "transition": one.transition, "initiator_id": USER, "initiator_name": USER_NAME,
        "job": {
            "id": job, "created_at": one.created_at, "status": one.status, "file_id": derived(one.version, "file"),
            "tags": {"owner": "", "scope": "organization"}, "queue_position": 0, "queue_size": 0,
            "organization_id": ORGANISATION, "input": {"workspace_build_id": one.id}, "type": "workspace_build",
            "metadata": {
                "template_version_name": "", "template_id": NIL, "template_name": "", "template_display_name": "",
                "template_icon": "",
            },
            "logs_overflowed": False, **times, **extra,
        },
        "reason": "initiator", "resources": [], "deadline": None, "max_deadline": None, "status": one.state,
        "daily_cost": 0, "template_version_preset_id": one.preset,
        "matched_provisioners": {"count": 1, "available": 1, "most_recently_seen": one.created_at},
    }  # fmt: skip
    if one.status == "succeeded":
        ai = workspace.template.ai and one.transition == "start" and release < NO_TASKS
        found |= {"has_ai_task": ai, "has_external_agent": False}
        if ai and release < NO_PARAMETER:
            found["ai_task_sidebar_app_id"] = derived(one.id, APP)
        if one.transition == "start":
            found["resources"] = [_resource(one, "docker_container", "workspace", [agent] if agent else [])]
            found["resources"] += [_resource(one, "coder_ai_task", "agentapi")] if ai else []
    return found


def _resource(one: Build, kind: str, name: str, agents: list[Json] | None = None) -> Json:
    found: Json = {
        "id": derived(one.id, name), "created_at": one.completed_at, "job_id": derived(one.id, "job"), "icon": "",
        "workspace_transition": one.transition, "type": kind, "name": name, "hide": False, "daily_cost": 0,
    }  # fmt: skip
    return found if agents is None else found | {"agents": agents}


def agent(
    workspace: Workspace, settings: StandInSettings, *, ready_at: str, health: str, subdomain: str, lag: float
) -> Json:
    """The workspace agent of a start build. `ready_at` is empty until its program waits for input."""
    one = workspace.build
    id_, sources = workspace.agent, derived(workspace.agent, "log")
    times: Json = {"first_connected_at": one.completed_at, "last_connected_at": one.completed_at}
    times |= {"started_at": one.completed_at} | ({"ready_at": ready_at} if ready_at else {})
    return times | {
        "id": id_, "parent_id": None, "created_at": one.completed_at, "updated_at": ready_at or one.completed_at,
        "status": "connected", "lifecycle_state": settings.lifecycle if ready_at else "starting", "name": "main",
        "resource_id": derived(one.id, "workspace"), "architecture": "amd64", "operating_system": "linux",
        "environment_variables": {"CODER_URL": "***CODER_HOSTNAME_REDACTED***"}, "logs_length": 0,
        "logs_overflowed": False, "version": version_of(settings.release), "api_version": "2.6",
        "connection_timeout_seconds": 120,
        "apps": [] if settings.generation == "chats" else apps(workspace, health, subdomain, lag),
        "subsystems": [], "health": {"healthy": True},
        "latency": {"Coder Embedded Relay": {"preferred": True, "latency_ms": 0.5}},
        "troubleshooting_url": "https://coder.com/docs/admin/templates/troubleshooting",
        "display_apps": ["port_forwarding_helper", "web_terminal"], "startup_script_behavior": "blocking",
        "log_sources": [
            {"workspace_agent_id": id_, "id": sources, "created_at": one.completed_at, "icon": "",
             "display_name": "Install and start AgentAPI"}
        ],
        "scripts": [
            {"id": derived(id_, "script"), "log_source_id": sources, "log_path": "", "script": "true", "cron": "",
             "run_on_start": True, "run_on_stop": False, "start_blocks_login": False, "timeout": 0,
             "display_name": "Install and start AgentAPI"}
        ],
    }  # fmt: skip


def apps(workspace: Workspace, health: str, subdomain: str, lag: float) -> list[Json]:
    """A terminal app, which has no health, and AgentAPI where the template has it."""
    common: Json = {"external": False, "sharing_level": "owner", "hidden": False, "open_in": "slim-window"}
    cli: Json = {
        "id": derived(workspace.build.id, "cli"), "slug": f"{APP}-cli", "display_name": "Claude Code CLI",
        "command": "true", "icon": "/icon/claude.svg", "subdomain": False, "health": "disabled", "statuses": [],
        "healthcheck": {"url": "", "interval": 0, "threshold": 0},
    }  # fmt: skip
    if not workspace.template.ai:
        return [common | cli]
    last = workspace.status_now(lag)
    shown = [app_status(workspace, one) for one in workspace.statuses if last and one.created_at <= last.created_at]
    ccw: Json = {
        "id": workspace.app, "url": "http://localhost:3284/", "slug": APP, "display_name": "Claude Code",
        "icon": "/icon/claude.svg", "subdomain": bool(subdomain), "health": health, "statuses": shown,
        "healthcheck": {"url": "http://localhost:3284/status", "interval": 3, "threshold": 20},
    }  # fmt: skip
    return [common | cli, common | ccw | ({"subdomain_name": subdomain} if subdomain else {})]


def app_status(workspace: Workspace, one: AppStatus) -> Json:
    """A report of a coding agent."""
    ids = {"workspace_id": workspace.id, "agent_id": workspace.agent, "app_id": workspace.app}
    return one.model_dump() | ids


def workspace(one: Workspace, agent: Json | None, lag: float, release: int, *, with_task: bool) -> Json:
    """A workspace."""
    last, base = one.status_now(lag), one.template
    found: Json = {
        "id": one.id, "created_at": one.created_at, "updated_at": one.created_at, "owner_id": USER,
        "owner_name": USER_NAME, "owner_avatar_url": AVATAR, "organization_id": ORGANISATION,
        "organization_name": "coder", "template_id": base.id, "template_name": base.name,
        "template_display_name": base.title, "template_icon": "", "template_allow_user_cancel_workspace_jobs": False,
        "template_active_version_id": base.version, "template_require_active_version": False,
        "template_use_classic_parameter_flow": False, "latest_build": build(one, one.build, agent, release),
        "latest_app_status": app_status(one, last) if last else None, "outdated": one.build.version != base.version,
        "name": one.name, "last_used_at": one.created_at, "deleting_at": None, "dormant_at": None,
        "health": {"healthy": True, "failing_agents": []}, "automatic_updates": "never", "allow_renames": False,
        "favorite": False, "next_start_at": None, "is_prebuild": False,
    }  # fmt: skip
    return found | ({"task_id": one.task} if with_task and base.ai else {})


def task(one: Workspace, agent: Json | None, lag: float, *, old: bool) -> Json:
    """A task, as `/api/experimental/tasks` (old) or `/api/v2/tasks` shows it."""
    base, last = one.template, one.status_now(lag)
    state: Json | None = None
    if last and (one.build.transition != "start" or last.created_at > one.build.created_at):
        state = {"timestamp": last.created_at, "state": last.state, "message": last.message, "uri": last.uri}
    found: Json = {
        "id": one.id if old else one.task, "organization_id": ORGANISATION, "owner_id": USER,
        "owner_name": USER_NAME, "name": one.name, "template_id": base.id, "template_name": base.name,
        "template_display_name": base.title, "template_icon": "", "workspace_id": one.id,
        "workspace_agent_id": agent["id"] if agent else None,
        "workspace_agent_lifecycle": agent["lifecycle_state"] if agent else None,
        "workspace_agent_health": agent["health"] if agent else None, "initial_prompt": one.spec,
        "status": one.state, "current_state": state, "created_at": one.created_at, "updated_at": one.created_at,
    }  # fmt: skip
    if old:
        return found
    status = task_status(one, agent)
    if state and state["state"] == "failure":
        state["state"] = "failed"
    if state is None and status == "initializing":
        words = "Agent is starting" if agent else f"Workspace is {one.state}"
        state = {"timestamp": one.build.created_at, "state": "working", "message": words, "uri": ""}
    return found | {
        "status": status, "current_state": state, "workspace_status": one.state, "workspace_name": one.name,
        "workspace_build_number": one.build.number, "template_version_id": one.build.version,
        "workspace_app_id": one.app if agent else None, "owner_avatar_url": AVATAR,
        "display_name": one.title or one.name,
    }  # fmt: skip


def task_status(one: Workspace, agent: Json | None) -> str:
    """The status of a task of the newer generation."""
    if one.build.status in ("failed", "canceled"):
        return "error"
    if one.build.transition != "start":
        return "paused"
    if one.build.active or agent is None:
        return "pending" if one.build.status == "pending" else "initializing"
    health = {app["slug"]: app["health"] for app in agent["apps"]}.get(APP)
    return {"healthy": "active", "initializing": "initializing"}.get(str(health), "error")


def templates(world: World) -> list[Json]:
    """All templates."""
    alive = [workspace.template.id for workspace in world.workspaces.values() if not workspace.deleted]
    return [template(one, int(one.id in alive)) for one in TEMPLATES]
