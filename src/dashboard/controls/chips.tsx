interface ChipsProps<Value extends string> {
  /** The name of the choice, for those who do not see it. */
  label: string;
  /** The word in front of the buttons, which they complete: "By". */
  lead?: string;
  chosen: Value;
  /** The names of the values that may be chosen. */
  options: Readonly<Record<Value, string>>;
  onChoose(value: Value): void;
}

/** Shows buttons, one of which is pressed. */
export function Chips<Value extends string>({ label, lead, chosen, options, onChoose }: ChipsProps<Value>) {
  return (
    <fieldset class="chips">
      <legend class="unseen">{label}</legend>
      {lead && <span class="dim">{lead}</span>}
      {(Object.keys(options) as Value[]).map((value) => (
        <button key={value} type="button" aria-pressed={value === chosen} onClick={() => onChoose(value)}>
          {options[value]}
        </button>
      ))}
    </fieldset>
  );
}
