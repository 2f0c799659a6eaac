/** The scopes of tokens; `admin` includes the others. */
export const SCOPES = ['submit', 'worker', 'launcher', 'read', 'admin'] as const;
export type Scope = (typeof SCOPES)[number];
