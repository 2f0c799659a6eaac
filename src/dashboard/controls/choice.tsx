interface ChoiceProps {
  label: string;
  /** The name of the field in its form. */
  name: string;
  /** The words for each value, in the order in which they are shown. */
  options: Readonly<Record<string, string>>;
  /** The value that is chosen at first; left out: the first. */
  chosen?: string;
}

/** Shows a choice in a form. Preact knows no `defaultValue` of a choice, so the option itself says that it is chosen. */
export function Choice({ label, name, options, chosen }: ChoiceProps) {
  return (
    <label>
      <span>{label}</span>
      <select name={name}>
        {Object.entries(options).map(([value, words]) => (
          <option key={value} value={value} selected={value === chosen}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}
