/** What a token may be used for; `admin` includes the others. */
export const SCOPES = ['submit', 'worker', 'launcher', 'read', 'admin'] as const;
export type Scope = (typeof SCOPES)[number];
