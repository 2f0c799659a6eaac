interface ChipsProps<Value extends string> {
  /** The name of the choice, for those who do not see it. */
  label: string;
  chosen: Value;
  /** The names of the values that may be chosen. */
  options: Readonly<Record<Value, string>>;
  onChoose(value: Value): void;
}

/** Shows buttons, one of which is pressed. */
export function Chips<Value extends string>({ label, chosen, options, onChoose }: ChipsProps<Value>) {
  return (
    <fieldset class="chips">
      <legend class="unseen">{label}</legend>
      {(Object.keys(options) as Value[]).map((value) => (
        <button key={value} type="button" aria-pressed={value === chosen} onClick={() => onChoose(value)}>
          {options[value]}
        </button>
      ))}
    </fieldset>
  );
}
