// Branches of a conversation: which versions there are of one of its messages. Nothing here knows the page.

/** @typedef {import("../answers").BranchView} Branch */

/**
 * The versions of the message `seq` of the conversation `id`: for each the branch to open, the latest that has it. `at`: which
 * one is shown. A branch begins as another one up to its `branch_seq`.
 * @param {readonly Branch[]} branches the oldest first
 * @param {string} id
 * @param {number} seq
 * @returns {{ids: string[], at: number}}
 */
export function versionsOf(branches, id, seq) {
  const byId = new Map(branches.map((branch) => [branch.id, branch]));
  const parent = (/** @type {Branch} */ branch) => byId.get(branch.branch_of ?? "");
  /** The branch that a message was written in. @param {Branch | undefined} branch @returns {Branch | undefined} */
  const owner = (branch) => (branch && (branch.branch_seq ?? 0) > seq ? owner(parent(branch)) : branch);
  /** The branch that had the first version of it. @param {Branch | undefined} branch @returns {Branch | undefined} */
  const first = (branch) => {
    const found = owner(branch);
    return found?.branch_seq === seq ? first(parent(found)) : found;
  };
  const origin = first(byId.get(id));
  const versions = branches.filter((each) => each === origin || (each.branch_seq === seq && first(each) === origin));
  const latest = (/** @type {Branch} */ version) =>
    branches.filter((each) => owner(each) === version).reduce((one, other) => (other.updated_at > one.updated_at ? other : one), version);
  return { ids: versions.map((each) => latest(each).id), at: versions.findIndex((each) => each === owner(byId.get(id))) };
}
