import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '../../..');
const page = readFileSync(join(root, 'docs/http.md'), 'utf8');

/** The folders of src whose errors callers read. */
const FOLDERS = ['gateway', 'request-facts', 'protocol', 'batches', 'features', 'host/node/http'];
/** What makes an error with a code, up to the end of its statement, or names a code as such. */
const MAKES =
  /(?:new (?:HttpError|RequestFault|JsonFault|BodyFault)\(|\bfault\(|\bFAILURE_CODES = \[)[^;]*|\bcode: '\w+'/g;
const CODE = /'([a-z]+(?:_[a-z0-9]+)+)'/g;
/** What such a statement quotes beside codes, and the codes of Response objects (docs/responses.md). */
const NO_CODES = [
  ...['error_code', 'custom_id', 'file_key_secret', 'not_found_error', 'invalid_request_error'],
  ...['server_error', 'invalid_prompt', 'previous_response_id'],
];

it('every code of an error stands on the page of statuses', () => {
  const codes = FOLDERS.flatMap((folder) =>
    readdirSync(join(root, 'src', folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .flatMap((file) => [...readFileSync(join(root, 'src', folder, file), 'utf8').matchAll(MAKES)])
      .flatMap(([text]) => [...text.matchAll(CODE)].map(([, code]) => code!)),
  );
  expect(codes.length).toBeGreaterThan(100);
  const missing = new Set(codes.filter((code) => !NO_CODES.includes(code) && !page.includes(`\`${code}\``)));
  expect([...missing]).toEqual([]);
});
