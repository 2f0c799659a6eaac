import { computed, effect, signal } from '@preact/signals';

/** The themes of the page, in the order of the switch. */
const THEMES = ['system', 'light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

const STORED = 'worker-vllm.theme';

function stored(): Theme {
  return THEMES.find((theme) => theme === localStorage.getItem(STORED)) ?? 'system';
}

/** The user's theme, which is stored for the next visit. */
export const theme = signal<Theme>(stored());
/** The theme that the switch sets next. */
export const nextTheme = computed(() => THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]!);

export function switchTheme(): void {
  theme.value = nextTheme.value;
  localStorage.setItem(STORED, theme.value);
}

const system = matchMedia('(prefers-color-scheme: dark)');
const isSystemDark = signal(system.matches);
system.addEventListener('change', () => (isSystemDark.value = system.matches));

/** Whether dark colours are shown now. */
export const isDark = computed(() =>
  theme.value === 'system' ? isSystemDark.value : theme.value === 'dark',
);

// Colours use `light-dark()` and follow the document's colour scheme.
effect(() => {
  document.documentElement.style.colorScheme = theme.value === 'system' ? '' : theme.value;
});
