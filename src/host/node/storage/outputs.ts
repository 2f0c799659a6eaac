/** Something that leaves the object. */
interface Output {
  run(): void;
  /** Called instead: what it tells of is not stored. */
  lost?(error: Error): void;
}

interface OutputPorts {
  /** Syncs what has been committed; calls back once. */
  sync(done: (error: Error | null) => void): void;
  /** The last sync has ended, and what waited for it has left. */
  afterSync(): void;
  /** A sync failed. Nothing leaves any more. */
  syncFailed(error: Error): void;
  /** An output threw. */
  threw(error: unknown): void;
}

/**
 * Holds back what leaves an object until everything that was written before it is on disk, in order. Three groups can be
 * waiting: that of the sync on its way, what has been committed since that began, and what is not committed yet.
 */
export class Outputs {
  readonly #ports: OutputPorts;
  #syncing: Output[] | null = null;
  #committed: Output[] | null = null;
  #open: Output[] | null = null;

  constructor(ports: OutputPorts) {
    this.#ports = ports;
  }

  get isSyncing(): boolean {
    return this.#syncing !== null;
  }

  /** Whether nothing that was written is unsynced. */
  get isEmpty(): boolean {
    return (this.#open ?? this.#committed ?? this.#syncing) === null;
  }

  whenSynced(output: Output): void {
    const last = this.#open ?? this.#committed ?? this.#syncing;
    if (last) last.push(output);
    else this.#run(output);
  }

  /** Something is written that is not committed yet. */
  begun(): void {
    this.#open ??= [];
  }

  /** What was open is committed. */
  committed(): void {
    const outputs = this.#open ?? [];
    this.#open = null;
    if (this.#committed) this.#committed.push(...outputs);
    else this.#committed = outputs;
    if (!this.#syncing) this.#sync();
  }

  /** What was open is undone. */
  undone(error: Error): void {
    const outputs = this.#open ?? [];
    this.#open = null;
    for (const { lost } of outputs) this.#run({ run: () => lost?.(error) });
  }

  #sync(): void {
    const outputs = this.#committed!;
    this.#syncing = outputs;
    this.#committed = null;
    this.#ports.sync((error) => {
      if (error) return this.#ports.syncFailed(error);
      // Outputs that are added meanwhile join them, or they would overtake the rest.
      for (const output of outputs) this.#run(output);
      this.#syncing = null;
      if (this.#committed) this.#sync();
      this.#ports.afterSync();
    });
  }

  #run({ run }: Output): void {
    try {
      run();
    } catch (error) {
      this.#ports.threw(error);
    }
  }
}
