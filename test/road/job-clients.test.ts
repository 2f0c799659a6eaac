import { nodeProgram } from '../support/job-clients/program.ts';
import { jobClientScenarios } from '../support/job-clients/scenarios.ts';

/** The client of src/client. test/clients/job-clients.test.ts runs the same over the one in Python. */
jobClientScenarios(async () => nodeProgram());
