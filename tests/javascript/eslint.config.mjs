// Rules for the scripts of pages. Run in the root of the repository:
//     tests/javascript/node_modules/.bin/eslint -c tests/javascript/eslint.config.mjs decoding
import js from "@eslint/js";

const browser = ["document", "window", "fetch", "atob", "btoa", "matchMedia", "AbortController", "TextDecoder", "TextEncoder"];

const ours = ["Explorer", "ExplorerNumbers", "ExplorerPictures"];

export default [
  js.configs.recommended,
  {
    files: ["**/*.js"],
    linterOptions: { reportUnusedDisableDirectives: "error" },
    languageOptions: {
      ecmaVersion: 2022,
      sourceType: "script",
      globals: Object.fromEntries([...browser, ...ours].map((name) => [name, "readonly"])),
    },
    rules: {
      "consistent-return": "error",
      curly: "error",
      eqeqeq: "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-redeclare": ["error", { builtinGlobals: false }],
      "no-shadow": "error",
      "no-var": "error",
      "prefer-const": "error",
      strict: ["error", "global"],
      // Text enters a page as text only.
      "no-restricted-properties": [
        "error",
        { property: "innerHTML" },
        { property: "outerHTML" },
        { property: "insertAdjacentHTML" },
        { object: "document", property: "write" },
      ],
      "max-len": ["error", { code: 110 }],
    },
  },
];
