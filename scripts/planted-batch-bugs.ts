/** A fault that the simulation is to find. */
export interface Bug {
  name: string;
  file: string;
  /** Exactly one place of the file. */
  line: string;
  becomes: string;
  /** Where the search begins, for what few seeds meet; left out: at the first. */
  first_seed?: number;
}

/** Faults of the rules of batches. */
export const BATCH_BUGS: readonly Bug[] = [
  {
    name: 'a line is noted as done though it could not be written',
    file: 'src/batches/outcomes.ts',
    line: 'await files.append(fileIdOf(batch, file), some);',
    becomes: 'await files.append(fileIdOf(batch, file), some).catch(() => 0);',
  },
  {
    name: 'lines that the queue does not know are not submitted again',
    file: 'src/batches/runner.ts',
    line: `moveLines(this.#ports.sql, seq, lost, 'waiting');`,
    becomes: '',
  },
  {
    name: 'a line is written under another key each time',
    file: 'src/batches/outcomes.ts',
    line: '({ key: number, ',
    becomes: '({ key: number + Math.random(), ',
  },
  {
    name: 'a batch is closed while jobs of its lines run',
    file: 'src/batches/runner.ts',
    line: 'if (submitted.length === 0) await this.#close(stored, why);',
    becomes: 'await this.#close(stored, why);',
  },
  {
    name: 'a line that was called back counts as tried',
    file: 'src/batches/outcomes.ts',
    line: 'isTried: false, kind:',
    becomes: 'isTried: true, kind:',
  },
  {
    name: 'lines of batches go before what people wait for',
    file: 'src/gateway/objects/batches.ts',
    line: 'const PRIORITY = -10;',
    becomes: 'const PRIORITY = 10;',
  },
];
