import { FILE_INDEX_SCHEMA } from '../files/file-index.ts';

/** The schema, numbered and forward only: a released step is never edited, the next one is added. */
export const MIGRATIONS: readonly (readonly string[])[] = [FILE_INDEX_SCHEMA];
