/** An effect that leaves the object. */
interface Output {
  run(): void;
  /** Called instead of `run` if the writes before it were undone. */
  lost?(error: Error): void;
}

interface OutputPorts {
  /** Syncs what was committed; calls back once. */
  sync(done: (error: Error | null) => void): void;
  /** Called when a sync has ended and the outputs that waited for it have left. */
  afterSync(): void;
  /** Called when a sync has failed, after which no output leaves. */
  syncFailed(error: Error): void;
  /** Called with the error of an output that threw. */
  threw(error: unknown): void;
}

/**
 * Holds back the outputs of an object, in order, until everything that was written before each is on disk. Three groups
 * can wait: for the sync in progress, for the sync of later commits, and for the commit of the open transaction.
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

  /** Whether all writes are synced. */
  get isEmpty(): boolean {
    return (this.#open ?? this.#committed ?? this.#syncing) === null;
  }

  whenSynced(output: Output): void {
    const last = this.#open ?? this.#committed ?? this.#syncing;
    if (last) last.push(output);
    else this.#run(output);
  }

  /** Begins the group of a transaction that has just begun. */
  begun(): void {
    this.#open ??= [];
  }

  /** Notes that the open transaction was committed. */
  committed(): void {
    const outputs = this.#open ?? [];
    this.#open = null;
    if (this.#committed) this.#committed.push(...outputs);
    else this.#committed = outputs;
    if (!this.#syncing) this.#sync();
  }

  /** Notes that the open transaction was undone. */
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
      // Outputs that are added during this loop join this group; otherwise they would overtake the rest of it.
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
