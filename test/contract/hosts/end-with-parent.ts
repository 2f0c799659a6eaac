const LOOK_EVERY_MS = 500;

/** Ends a host program when the process that started it is gone, however that ended. @param end of what it started */
export function endWithParent(end: () => Promise<void> = async () => {}): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    void end().finally(() => process.exit(1));
  }, LOOK_EVERY_MS);
}
