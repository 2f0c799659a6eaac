import { readdir } from 'node:fs/promises';
import type { Logger } from '../process/index.ts';

/**
 * File descriptors of workerd. It accepts every connection itself, at two descriptors each, and ends when there are
 * none left. It closes a connection that has sent no whole request head within 15 s, and an idle one soon after its
 * last answer; so what helps is a high limit, a warning in time, and a restart (keep-serving.ts).
 */
const PER_CONNECTION = 2;

/** Fewer are worth a warning at the start. */
const ENOUGH = 8192;

/** Beyond this share of the limit a warning says how many are open. */
const MUCH = 0.8;
const LOOK_EVERY_MS = 2000;
const WARN_EVERY_MS = 60_000;

const RAISE =
  'raise the hard limit of open files (ulimit -Hn, LimitNOFILE of systemd, docker run --ulimit nofile)';

/**
 * How many descriptors a child may have: Node has raised its own soft limit to the hard one, and children inherit it.
 * @returns null where there is no limit
 */
export function descriptorLimit(): number | null {
  const { userLimits } = process.report.getReport() as { userLimits?: { open_files?: { soft: unknown } } };
  const limit = Number(userLimits?.open_files?.soft);
  return Number.isFinite(limit) ? limit : null;
}

/** Says so when there are few descriptors, and what to do. */
export function warnOfLowLimit(limit: number | null, log: Logger | undefined): void {
  if (limit === null || limit >= ENOUGH) return;
  log?.warn(
    `only ${limit} files may be open at once, enough for about ${Math.floor((limit * MUCH) / PER_CONNECTION)} connections: ${RAISE}`,
  );
}

/** What to say when workerd ended because it had no descriptor left. */
export function exhaustedText(limit: number | null): string {
  return (
    `workerd ended: too many connections, no file descriptor left${limit === null ? '' : ` of ${limit}`}. Every connection broke and ` +
    `callers of /v1 lost their answers; stored jobs are kept. It is started again; ${RAISE}`
  );
}

/** Warns while workerd has most of its descriptors open. Linux alone tells how many. @returns a function that ends it */
export function watchDescriptors(pid: number, limit: number | null, log: Logger | undefined): () => void {
  if (limit === null || !log) return () => {};
  let warnedAt = Number.NEGATIVE_INFINITY;
  const timer = setInterval(async () => {
    const open = (await readdir(`/proc/${pid}/fd`).catch(() => [])).length;
    const now = performance.now();
    if (open < limit * MUCH || now - warnedAt < WARN_EVERY_MS) return;
    warnedAt = now;
    log.warn(`workerd has ${open} of ${limit} files open; without one left it ends: ${RAISE}`);
  }, LOOK_EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}
