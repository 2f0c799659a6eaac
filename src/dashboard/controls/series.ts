/** The name, values and look of one line. */
export interface Series {
  name: string;
  values: readonly (number | null)[];
  /**
   * How it is drawn; left out: as a line. Lines of one chart differ by this too, for those who do not tell colours
   * apart.
   */
  draw?: Drawing | undefined;
  /** The colour, which means the same as elsewhere on the page; left out: `accent`. */
  tone?: Tone | undefined;
}

export type Drawing = 'line' | 'thin' | 'dotted' | 'area' | 'bar';
export type Tone = 'accent' | 'good' | 'work' | 'warn' | 'drain' | 'bad' | 'dim';
