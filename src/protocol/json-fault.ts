/** The reason why JSON is refused. */
export class JsonFault extends Error {
  override name = 'JsonFault';
  readonly code: 'invalid_json' | 'invalid_utf8' | 'nested_too_deep' | 'too_many_values';
  constructor(code: JsonFault['code'], message: string) {
    super(message);
    this.code = code;
  }
}
