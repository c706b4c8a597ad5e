"""The settings of the fleet."""

from pydantic import Field, SecretStr

from pallas_runtime.settings import ExecutorSettings, Names


class FleetSettings(ExecutorSettings):
    """Settings of a fleet."""

    coder_url: str | None = Field(None, description="base URL of Coder; without one every tool answers 503")
    coder_token: SecretStr | None = Field(None, description="token of the Coder user who owns the workspaces")
    coder_ca: str | None = Field(None, description="CA certificates (PEM) of Coder, besides the usual ones")
    coder_organization: str | None = Field(
        None, description="organization in which workspaces are made; by default that of the template"
    )
    fleet_apps: Names = Field(("ccw",), description="slugs of the workspace apps that are AgentAPI")
    fleet_prefix: str = Field("", description="what workspace names of agents begin with, before the agent's name")
    fleet_max_agents: int = Field(100, ge=1, description="agents that may exist at a time")
    fleet_tasks: int = Field(200, ge=1, le=4000, description="tasks that run at a time, of all replicas")
    fleet_create_wait: float = Field(
        10.0, ge=0, le=50, description="seconds that create_agent waits for the workspace to be provisioned"
    )
    fleet_allow: Names = Field(
        (), description="who may use it: `user`, `team`, `turn`, `token`, `peer`, `team:ID`, `token:ID`; empty: nobody"
    )
    fleet_operators: Names = Field(
        (), description="who may use the agents of all owners, in the words of `PALLAS_FLEET_ALLOW`, in which they are"
    )
    fleet_ai_tokens: Names = Field((), description="ids of tokens whose holders are programs (source `ai_controller`)")
    fleet_metadata: Names = Field(
        (
            "agent_spec=fleet_mcp_agent_spec",
            "pull_request_url=fleet_mcp_pull_request_url",
            "pull_request_status=fleet_mcp_pull_request_status",
            "pull_request_check_status=fleet_mcp_pull_request_check_status",
        ),
        description="metadata of workspaces that callers see: Coder's key without its number, `=`, name for callers",
    )
    fleet_extras: bool = Field(
        False, description="also offer wait_agent_task, and resources with their changes: not in the contract"
    )
