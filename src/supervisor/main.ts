import { EXIT, UserError } from '../process/index.ts';
import { runSupervisor } from './index.ts';

// The supervisor as a process: exits with the container's code. A user's mistake is shown as its message alone.
try {
  process.exit(await runSupervisor(process.env));
} catch (error) {
  process.stderr.write(`${error instanceof UserError ? error.message : (error as Error).stack}\n`);
  process.exit(error instanceof UserError ? error.exitCode : EXIT.unexpected);
}
