import { computed, signal } from '@preact/signals';

/** The lead of the server's clock over this machine's, ms; it is learnt from all that the server sends. */
let offset = 0;

/** The time by the server's clock, epoch ms; changes once a second while the tab is visible. */
export const now = signal(Date.now());

/** Learns the server's clock. @param at when the server made what has just arrived, epoch ms */
export function learnClock(at: number): void {
  const next = at - Date.now();
  // The time that an answer travels makes the server's clock look late, but never early.
  if (next > offset || Math.abs(next - offset) > 2000) offset = next;
  tick();
}

function tick(): void {
  now.value = Date.now() + offset;
}

const STORED = 'worker-vllm.utc';

/** Whether exact times are shown in UTC. */
export const isUtc = signal(localStorage.getItem(STORED) === '1');

export function switchUtc(): void {
  isUtc.value = !isUtc.value;
  localStorage.setItem(STORED, isUtc.value ? '1' : '0');
}

export const timeZone = computed(() => (isUtc.value ? 'UTC' : undefined));

/** Starts the one timer for everything that ticks on the page. */
export function startClock(): void {
  setInterval(() => {
    if (!document.hidden) tick();
  }, 1000);
  document.addEventListener('visibilitychange', tick);
}
