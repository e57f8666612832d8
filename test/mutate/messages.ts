/** What the mutation tester and its workers say to each other. */

/** `tests`: indices in the file. `mutant` -1: none. `maximum`: evaluations of mutants. `ms`: for each test. */
export interface Order {
  readonly tests: readonly number[];
  readonly mutant: number;
  readonly maximum: number;
  readonly ms: number;
}

/** What one test of the sound program took and met. */
export interface TestFacts {
  readonly name: string;
  readonly ms: number;
  readonly evaluations: number;
  readonly hits: readonly number[];
}

export type Report =
  /** Mutants that are met before the first test runs, and the number of tests. */
  | { readonly kind: 'loaded'; readonly hits: readonly number[]; readonly tests: number }
  | { readonly kind: 'passed'; readonly facts: readonly TestFacts[] }
  /** `index`: of the test in its file. */
  | {
      readonly kind: 'failed';
      readonly index: number;
      readonly test: string;
      readonly reason: string;
    }
  | { readonly kind: 'crashed'; readonly reason: string };
