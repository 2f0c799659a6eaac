import { afterAll, beforeAll } from 'vitest';
import { ensureClients } from '../../scripts/clients/setup.ts';
import { installPythonClient } from '../support/examples.ts';
import { pythonProgram } from '../support/job-clients/program.ts';
import { jobClientScenarios } from '../support/job-clients/scenarios.ts';
import { stateFolder, tearDown } from '../support/road.ts';

/** The client of clients/python, as pip installs it. test/road/job-clients.test.ts runs the same over src/client. */
let python: string;
let modules: string;

beforeAll(async () => {
  ({ python } = await ensureClients());
  modules = stateFolder();
  await installPythonClient(python, modules);
});
afterAll(tearDown);

jobClientScenarios(async () => pythonProgram(python, modules));
