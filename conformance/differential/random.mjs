// Choices from a seed: the same seed, the same choices.

/// A generator of 32 bits (mulberry32).
export class Dice {
  #state;

  constructor(seed) {
    this.#state = seed >>> 0;
  }

  bits() {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  }

  below(bound) {
    return this.bits() % bound;
  }

  oneIn(n) {
    return this.below(n) === 0;
  }

  pick(choices) {
    return choices[this.below(choices.length)];
  }

  /// One of [[weight, value], ...].
  weighted(choices) {
    let left = this.below(choices.reduce((sum, [weight]) => sum + weight, 0));
    for (const [weight, value] of choices) {
      if (left < weight) return value;
      left -= weight;
    }
    throw new Error("weights do not add up");
  }
}
