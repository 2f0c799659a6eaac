import { expect, it } from 'vitest';
import type { Entry } from '../../../../../src/host/node/journal/journal.ts';
import type { JournalMember } from '../../../../support/journal-member.ts';
import { JournalMembers, numbers, put } from '../../../../support/journal-members.ts';
import { until } from '../../../../support/poll.ts';

/** Processes that begin one empty journal in the same instant. */
const members = new JournalMembers();

/** Tries to become the owner, and stands still before its entry. */
async function claimSlowly(member: JournalMember) {
  const { journal } = member;
  const { append } = journal;
  const { promise, resolve: goOn } = Promise.withResolvers<void>();
  let isHeld = false;
  journal.append = async (entry: Entry) => {
    isHeld = true;
    await promise;
    await append.call(journal, entry);
  };
  const owner = member.own();
  await until(() => isHeld, 'it is about to append its entry');
  return async () => {
    goOn();
    return await owner;
  };
}

it('a process that has just become the owner is not replaced by one that saw nobody', async () => {
  const [one, two] = [await members.member(), await members.member()];
  await two.follow();
  expect(await one.own()).not.toBeNull();
  expect(await two.own()).toBeNull();
  await put(one, 1);
  await two.follower!.catchUp();
  expect(numbers(two)).toEqual([1]);
});

it('a process follows the fastest one, though it had the files of another that was about to begin', async () => {
  const before = await members.member();
  await put(before, 1);
  await before.end();
  const [fast, slow] = [await members.member(), await members.member()];
  await fast.follow();
  await slow.follow();
  const begun = await claimSlowly(fast);
  const withData = members.again(before);
  await withData.follow();
  const isLate = await claimSlowly(slow);
  expect(numbers(slow)).toEqual([1]);
  expect(await begun()).not.toBeNull();
  expect(await isLate()).toBeNull();
  await put(fast, 2);
  await slow.follower!.catchUp();
  expect(numbers(slow)).toEqual([2]);
  // The queue with the data keeps it, and says what is wrong.
  await expect(withData.follower!.catchUp()).rejects.toThrow('two queues have used one journal');
  expect(numbers(withData)).toEqual([1]);
});
