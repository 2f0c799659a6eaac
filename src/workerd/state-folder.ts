import { UserError } from '../process/index.ts';

/**
 * What to say when the state folder cannot be used: the cause, and what to do.
 * @param what could not be done, as in `Cannot lock the state folder`
 * @param user id of the one this process runs as; undefined where there are none
 */
export function stateFolderError(
  what: string,
  stateDir: string,
  error: unknown,
  user = process.getuid?.(),
): UserError {
  const { code, message } = error as NodeJS.ErrnoException;
  const isDenied = (code === 'EACCES' || code === 'EPERM') && user !== undefined;
  const owner = isDenied
    ? `Give it to the user that this runs as (chown -R ${user} ${stateDir}), or choose`
    : 'Choose';
  return new UserError(`Cannot ${what}: ${message}. ${owner} another folder (WORKER_VLLM_STATE or --state).`);
}
