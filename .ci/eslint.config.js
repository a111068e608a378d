// ESLint's recommended rules; a function has at most 60 lines, as ruff and a test demand of Python's.
import js from "@eslint/js";

export default [
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2023, sourceType: "module" },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "max-lines-per-function": ["error", { max: 60, skipBlankLines: true, skipComments: true }],
      "no-undef": "off", // tsc knows the names of the browser
      "no-unused-vars": ["error", { args: "none", caughtErrors: "none" }],
    },
  },
];
