import { readdir } from 'node:fs/promises';
import type { Logger } from '../../process/index.ts';

/**
 * This file divides the file descriptors of the queue's process, which takes one for each connection and some for each
 * database. Connections get a fixed share, beyond which new ones are closed, so that a descriptor is left for each
 * database.
 */

/** A lower limit of descriptors makes a warning at the start. */
const ENOUGH = 4096;

/** The share of the descriptors that connections may take. */
const CONNECTIONS = 0.8;
/** The share of the descriptors that idle objects may take. */
const IDLE = 0.1;
const OF_AN_OBJECT = 4;
/** The most idle objects, whatever the limit: more would only take memory. */
const MOST_IDLE = 500;
/** Beyond this share of the limit a warning says how many descriptors are open. */
const MUCH = 0.75;
const LOOK_EVERY_MS = 2000;
const WARN_EVERY_MS = 60_000;

const RAISE =
  'raise the hard limit of open files (ulimit -Hn, LimitNOFILE of systemd, docker run --ulimit nofile)';

/** Returns how many connections may be open at a time; undefined: no limit. */
export function mostConnections(): number | undefined {
  const limit = descriptorLimit();
  return limit === null ? undefined : Math.floor(limit * CONNECTIONS);
}

/** Returns how many idle objects may stay open. */
export function mostIdleObjects(): number {
  const limit = descriptorLimit() ?? Number.POSITIVE_INFINITY;
  return Math.max(1, Math.min(MOST_IDLE, Math.floor((limit * IDLE) / OF_AN_OBJECT)));
}

/** Warns of a low limit, and while most descriptors are open, which only Linux reports. @returns ends the watch */
export function watchDescriptors(log: Logger | undefined): () => void {
  const limit = descriptorLimit();
  if (limit === null || !log) return () => {};
  if (limit < ENOUGH) {
    log.warn(
      `only ${limit} files may be open at once, enough for ${mostConnections()} connections: ${RAISE}`,
    );
  }
  let warnedAt = Number.NEGATIVE_INFINITY;
  const timer = setInterval(async () => {
    const open = (await readdir('/proc/self/fd').catch(() => [])).length;
    const now = performance.now();
    if (open < limit * MUCH || now - warnedAt < WARN_EVERY_MS) return;
    warnedAt = now;
    log.warn(
      `${open} of ${limit} files are open; beyond ${mostConnections()} connections others are closed: ${RAISE}`,
    );
  }, LOOK_EVERY_MS);
  timer.unref();
  return () => clearInterval(timer);
}

/** Returns the soft limit, which Node raised to the hard one at its start; null: there is no limit. */
function descriptorLimit(): number | null {
  const { userLimits } = process.report.getReport() as { userLimits?: { open_files?: { soft: unknown } } };
  const limit = Number(userLimits?.open_files?.soft);
  return Number.isFinite(limit) ? limit : null;
}
