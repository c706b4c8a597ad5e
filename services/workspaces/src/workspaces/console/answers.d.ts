// The shapes in answers.py, written by `python -m tests.browser.typed`.
export interface AgentStatus {
  instance_id: string;
  instance: string;
  server_id: string;
  title: string;
  health: HealthView;
}

export interface AgentStatuses {
  agents: AgentStatus[];
  interval: number;
}

export interface AgentView {
  instance_id: string;
  server_id: string;
  label: string;
  team: string;
  title: string;
  description: string | null;
  icon: string | null;
  health: HealthView;
  capabilities: Capabilities;
  entry: boolean;
  starters: string[];
}

export interface Attached {
  instances: AttachedInstance[];
}

export interface AttachedInstance {
  instance_id: string;
  name: string;
  agents: number;
  warning: string | null;
}

export interface Bar {
  id: number;
  parent: number | null;
  kind: BarKind;
  what: string;
  note: string;
  after_ms: number;
  took_ms: number | null;
  attempt: number;
  failed: boolean;
  taken_over: boolean;
  turn_id: string | null;
  input_tokens: number | null;
  output_tokens: number | null;
  cost_nanos: number | null;
  currency: string | null;
}

export type BarKind = "queue" | "attempt" | "journal" | "step" | "model" | "tool" | "agent" | "content" | "cancel" | "outcome";

export interface Believed {
  active: boolean | null;
  name: string | null;
  workspace_ids: string[];
  at: string;
  error: string | null;
}

export interface BranchView {
  id: string;
  branch_of: string | null;
  branch_seq: number | null;
  updated_at: string;
}

export interface Capabilities {
  model: string | null;
  vision: boolean;
  context_window: number | null;
  max_output_tokens: number | null;
}

export interface Comparison {
  old: TurnView;
  new: TurnView;
  equal: boolean | null;
}

export interface ConversationPage {
  conversations: ConversationView[];
  next: string | null;
}

export interface ConversationView {
  id: string;
  workspace_id: string;
  title: string;
  created_at: string;
  updated_at: string;
  root_id: string | null;
  answering: boolean;
}

export interface DearTurn {
  turn: TurnLine;
  cost_nanos: number;
  currency: string;
}

export interface Deliveries {
  deliveries: DeliveryView[];
  waiting: number;
}

export interface DeliveryView {
  instance_id: string;
  instance_name: string;
  since: string;
  difference: string | null;
  error: string | null;
  tries: number;
  next_try_at: string | null;
  actor: string;
  correlation: string;
}

export interface DiscoveredAgent {
  server_id: string;
  name: string;
  title: string;
  description: string | null;
  version: string | null;
  icon: string | null;
  url: string;
  capabilities: Capabilities;
  health: HealthView | null;
  foreign: boolean;
  entry: boolean;
  starters: string[];
}

export interface EmptyPicker {
  text: string;
  link: string;
}

export interface FailingAgent {
  team: string;
  agent: string;
  code: string;
  error: string | null;
  turns: number;
  latest: string;
}

export interface Fault {
  field: string;
  reason: string;
}

export interface FoundConversation {
  id: string;
  workspace_id: string;
  title: string;
  updated_at: string;
  excerpt: string | null;
}

export interface FoundConversations {
  conversations: FoundConversation[];
}

export type Health = "ok" | "degraded" | "error" | "unknown";

export interface HealthView {
  status: Health;
  message: string | null;
  at: string | null;
}

export interface ImageView {
  id: string;
  mime_type: string;
  bytes: number;
}

export interface InstanceView {
  id: string;
  name: string;
  registry_url: string;
  namespace: string | null;
  created_at: string;
  status: TeamStatus | null;
  status_reason: string | null;
  status_at: string | null;
  jwt: JwtState;
  has_agent_token: boolean;
  agents: DiscoveredAgent[];
  unusable: UnusableEntry[];
  last_fetched_at: string | null;
  last_fetch_error: string | null;
  workspace_ids: string[];
  pushed_workspaces: string[] | null;
  pushed_at: string | null;
  believed: Believed | null;
  drift: string | null;
}

export interface Instances {
  instances: InstanceView[];
}

export type JwtState = "none" | "ready" | "revealed";

export interface LibraryView {
  library: string;
  name: string;
  documents: number;
}

export interface LinkView {
  url: string;
  expires_at: string;
}

export interface MessagePage {
  conversation: ConversationView;
  messages: MessageView[];
  before: number | null;
  branches: BranchView[];
}

export type MessageStatus = "sending" | "asking" | "answered" | "failed" | "cancelled";

export interface MessageView {
  id: string;
  conversation_id: string;
  seq: number;
  revision: number;
  role: "user" | "assistant";
  content: string;
  status: MessageStatus;
  created_at: string;
  ended_at: string | null;
  images: ImageView[];
  agent_instance_id: string | null;
  agent_server_id: string | null;
  agent_title: string | null;
  error_code: string | null;
  error: string | null;
  turn_id: string | null;
  question: QuestionView | null;
  remembers_from: number | null;
  attempt: number;
}

export interface OpenSession {
  id: string;
  begun_at: string;
  used_at: string | null;
  address: string;
  browser: string;
  current: boolean;
}

export interface OpenSessions {
  sessions: OpenSession[];
}

export interface Passage {
  title: string;
  library: string;
  text: string;
}

export interface Passages {
  team: string;
  passages: Passage[];
}

export interface Picker {
  agents: AgentView[];
  empty: EmptyPicker | null;
}

export interface Problem {
  error: string;
  code: string;
  field: string | null;
  faults: Fault[] | null;
}

export interface ProgressView {
  progress: number;
  total: number | null;
  message: string | null;
  at: string;
}

export interface QuestionView {
  id: string;
  message: string;
  requested_schema: Record<string, unknown> | null;
  url: string | null;
}

export interface Replayed {
  turn_id: string;
}

export interface Revealed {
  jwt: string;
  stanza: string;
  file: string;
}

export interface Sent {
  conversation_id: string;
  message_id: string;
  reply_id: string;
  events: string;
}

export interface SessionView {
  account: string;
  csrf: string;
  version: string;
  turns: boolean;
}

export interface SettingsView {
  health_interval: number;
  reconcile_interval: number;
  history_share: number;
  history_messages: number;
  history_bytes: number;
}

export interface TeamLibraries {
  instance_id: string;
  name: string;
  libraries: LibraryView[];
  error: string | null;
}

export type TeamStatus = "pending" | "provisioned" | "failed";

export interface TurnAgent {
  team: string;
  agent: string;
  title: string;
  model: string | null;
}

export interface TurnContent {
  asked: Record<string, unknown> | null;
  answer: unknown;
  text: string;
  expired: boolean;
}

export interface TurnDay {
  since: string;
  shortened: boolean;
  turns: number;
  failed: number;
  slowest: TurnLine[];
  dearest: DearTurn[];
  failing: FailingAgent[];
}

export interface TurnLine {
  id: string;
  team: string;
  agent: string;
  tool: string | null;
  caller: string | null;
  state: string;
  code: string | null;
  requested_at: string | null;
  ended_at: string | null;
  queued_ms: number | null;
  took_ms: number | null;
  attempts: number;
  worker: string | null;
  replay_of: string | null;
  asked: string | null;
  error: string | null;
  conversation: string | null;
  conversation_id: string | null;
  workspace_id: string | null;
}

export interface TurnModels {
  models: string[];
  agents: TurnAgent[];
}

export interface TurnPage {
  turns: TurnLine[];
  next: string | null;
}

export interface TurnTimes {
  total: number;
  queued: number;
  models: number;
  model_calls: number;
  tools: number;
  tool_calls: number;
  rest: number;
}

export interface TurnView {
  turn: TurnLine;
  model: string | null;
  parent_id: string | null;
  bars: Bar[];
  times: TurnTimes;
  trace: string | null;
  content: TurnContent | null;
  content_until: string | null;
  fault: string | null;
  can_replay: boolean;
  why_not: string | null;
  conversation_id: string | null;
  workspace_id: string | null;
  message_id: string | null;
}

export interface UnusableEntry {
  name: string;
  reason: string;
}

export interface WorkspaceLibraries {
  teams: TeamLibraries[];
}

export interface WorkspaceList {
  workspaces: WorkspaceView[];
}

export interface WorkspaceView {
  id: string;
  name: string;
  created_at: string;
  instance_ids: string[];
  conversations: number;
}
