// Why turns cannot be shown.
import { html } from "../../lib.js";
import { get } from "../../api.js";
import { session } from "../../state.js";
import { Button, Empty } from "../basic.js";

/** Reads the session again, which says whether the log is at hand now. */
const again = () => get("/session").then((/** @type {import("../../answers").SessionView} */ found) => (session.value = found), () => undefined);

export const NoTurns = () => html`<div class="page"><header><div><h1>Turns</h1></div></header>
  <${Empty} icon="activity" title="The log of turns is not at hand" action=${html`<${Button} icon="refresh-cw" onClick=${again}>Look again<//>`}>
    Turns are read from the broker, which this console cannot reach, or was not given. Conversations go on without it. To see turns here, set <code>PALLAS_NATS_URL</code> for the service workspaces.<//></div>`;
