/* The paper's three examples as a C programmer would write them for speed: the yardstick of core.py.

   One scalar loop a policy, number of arms known to the compiler, every logarithm, root and division that can be
   is in a table, only the pulled arm's numbers change, the leader is guessed by the branch predictor.

   -DADDRESSED  sameluck's own generator (streams.py): results are equal to sameluck's, to the bit.
   otherwise    xoshiro256++, consumed from left to right: what one would take by default. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

typedef uint64_t u64;
typedef int64_t i64;
#define INLINE static inline __attribute__((always_inline))
#define ASIDE static __attribute__((noinline))
/* Without this gcc turns an argmax into conditional moves, and each period waits for the one before. */
#define KEEP_BRANCH __asm__ volatile("")
#define MOST_ARMS 5

/* ---- generators ------------------------------------------------------------------------------------- */

#define GOLDEN 0x9E3779B97F4A7C15ull
#define FIRST 0xBF58476D1CE4E5B9ull
#define SECOND 0x94D049BB133111EBull
#define OTHER_LANE 0xD1B54A32D192ED03ull
#define SLOTS (1ull << 20)

typedef struct { u64 first, second; } Key;

INLINE u64 mix(u64 bits) {
    bits = (bits ^ (bits >> 30)) * FIRST;
    bits = (bits ^ (bits >> 27)) * SECOND;
    return bits ^ (bits >> 31);
}

static Key within(Key key, u64 coordinate) {
    u64 step = mix(coordinate + GOLDEN);
    return (Key){mix(key.first ^ step), mix((key.second + step) * OTHER_LANE)};
}

static Key stream(u64 seed, u64 purpose, u64 replication, u64 owner) {
    Key key = {mix(seed + OTHER_LANE), mix(seed ^ 0xBF58476D1CE4E5B9ull)};
    return within(within(within(key, purpose), replication), owner);
}

enum { REWARD = 1, DECISION = 2 };
enum { ROUND = 1, ACCEPT = 2, RIGHT = 6 }; /* uses of a word, times 2^40 */

#ifdef ADDRESSED

typedef struct { Key luck, stack[MOST_ARMS]; } Source;

static void start(Source *source, u64 seed, u64 replication, u64 reward_owner, u64 noise_owner) {
    Key rewards = stream(seed, REWARD, replication, reward_owner);
    for (int arm = 0; arm < MOST_ARMS; arm++) source->stack[arm] = within(rewards, arm);
    source->luck = stream(seed, DECISION, replication, noise_owner);
}

INLINE u64 word(Key key, u64 index) {
    u64 bits = key.first + index * GOLDEN;
    bits = ((bits ^ (bits >> 30)) * FIRST) ^ key.second;
    bits = (bits ^ (bits >> 27)) * SECOND;
    return bits ^ (bits >> 31);
}

INLINE u64 reward_bits(Source *s, int arm, i64 position) { return word(s->stack[arm], (u64)position); }
INLINE u64 own_bits(Source *s, i64 period, int slot) { return word(s->luck, (u64)period * SLOTS + (u64)slot); }
INLINE u64 more(Source *s, u64 bits, u64 attempt) {
    (void)s;
    return mix((bits ^ OTHER_LANE) + attempt * GOLDEN);
}

#else

typedef struct { u64 a, b, c, d; } Source;

static void start(Source *s, u64 seed, u64 replication, u64 reward_owner, u64 noise_owner) {
    Key one = stream(seed, REWARD, replication, reward_owner ^ noise_owner), two = within(one, 1);
    *s = (Source){one.first, one.second, two.first, two.second};
}

INLINE u64 next(Source *s) {
    u64 sum = s->a + s->d, result = ((sum << 23) | (sum >> 41)) + s->a, shifted = s->b << 17;
    s->c ^= s->a;
    s->d ^= s->b;
    s->b ^= s->c;
    s->a ^= s->d;
    s->c ^= shifted;
    s->d = (s->d << 45) | (s->d >> 19);
    return result;
}

INLINE u64 reward_bits(Source *s, int arm, i64 position) { (void)arm, (void)position; return next(s); }
INLINE u64 own_bits(Source *s, i64 period, int slot) { (void)period, (void)slot; return next(s); }
INLINE u64 more(Source *s, u64 bits, u64 attempt) { (void)bits, (void)attempt; return next(s); }

#endif

/* ---- samplers (samplers.py) ------------------------------------------------------------------------- */

#define TAIL 3.6541528853610088
#define LAYER 4.92867323399e-3

typedef struct { double scale, inside; } Layer;
static Layer layers[256];
static double height[257];

__attribute__((constructor)) static void make_ziggurat(void) {
    double edge[257] = {0};
    edge[0] = LAYER / exp(-0.5 * TAIL * TAIL);
    edge[1] = TAIL;
    for (int layer = 2; layer < 256; layer++) {
        double inner = edge[layer - 1];
        edge[layer] = sqrt(-2.0 * log(LAYER / inner + exp(-0.5 * inner * inner)));
    }
    for (int layer = 0; layer < 257; layer++) height[layer] = exp(-0.5 * edge[layer] * edge[layer]);
    for (int layer = 0; layer < 256; layer++) layers[layer] = (Layer){edge[layer] * 0x1p-53, edge[layer + 1]};
}

INLINE double uniform(u64 bits) { return (double)(i64)(bits >> 11) * 0x1p-53; }
INLINE double open_uniform(u64 bits) { return (double)(i64)((bits >> 11) | 1) * 0x1p-53; }

static double normal_tail(Source *s, u64 bits, u64 attempt) {
    for (;; attempt += 2) {
        double x = -log(open_uniform(more(s, bits, attempt + 1))) / TAIL;
        double y = -log(open_uniform(more(s, bits, attempt + 2)));
        if (2.0 * y >= x * x) return TAIL + x;
    }
}

ASIDE double normal_outside(Source *s, u64 bits, u64 layer, double x) {
    for (u64 attempt = 0;;) {
        if (layer == 0) return copysign(normal_tail(s, bits, attempt), x);
        double low = height[layer], high = height[layer + 1];
        if (low + (high - low) * uniform(more(s, bits, attempt + 1)) < exp(-0.5 * x * x)) return x;
        u64 fresh = more(s, bits, attempt + 2);
        attempt += 2;
        layer = fresh & 255;
        x = (double)(((i64)fresh >> 10) | 1) * layers[layer].scale;
        if (fabs(x) < layers[layer].inside) return x;
    }
}

INLINE double normal(Source *s, u64 bits) {
    u64 layer = bits & 255;
    double x = (double)(((i64)bits >> 10) | 1) * layers[layer].scale;
    if (__builtin_expect(fabs(x) < layers[layer].inside, 1)) return x;
    return normal_outside(s, bits, layer, x);
}

typedef struct { double depth, spread; } Shape; /* of a gamma law: shape - 1/3, 1 / sqrt(9 depth) */

ASIDE double gamma_unsure(Source *s, u64 bits, Shape shape, double x) {
    for (;;) {
        double root = 1.0 + shape.spread * x, cube = root * root * root;
        double coarse = (double)(i64)((bits >> 8) & 1023);
        double u = (coarse + open_uniform(more(s, bits, (u64)ACCEPT << 40))) * 0x1p-10;
        if (root > 0.0 && log(u) < 0.5 * x * x + shape.depth * (1.0 - cube + log(cube)))
            return shape.depth * cube;
        bits = more(s, bits, (u64)ROUND << 40);
        x = normal(s, bits);
    }
}

INLINE double gamma_from(Source *s, u64 bits, Shape shape) {
    double x = normal(s, bits), y = shape.spread * x, root = 1.0 + y;
    double coarse = (double)(i64)((bits >> 8) & 1023);
    double doubt = 1024.0 * 2.6811 * shape.depth * (y * y) * (y * y);
    if (__builtin_expect(coarse < 1023.0 - doubt, 1)) return shape.depth * (root * root * root);
    return gamma_unsure(s, bits, shape, x);
}

/* ---- one policy, many replications ------------------------------------------------------------------ */

typedef struct {
    u64 seed, reward_owner, noise_owner;
    i64 first, replications, horizon;
    double *earned; /* (replication,) */
    i64 *pulls;     /* (replication, arm) */
} Job;

typedef struct {
    double mean[MOST_ARMS]; /* of the rewards; their sd is 1, or they are 0 and 1 */
    u64 edge[MOST_ARMS];    /* how many of the 2^53 uniform values lie below the mean */
} Bandit;

INLINE double reward_of(Source *s, const Bandit *bandit, int binary, int arm, i64 position) {
    u64 bits = reward_bits(s, arm, position);
    static const double pays[2] = {0.0, 1.0}; /* a table, lest gcc branch: rewards cannot be predicted */
    if (binary) return pays[(bits >> 11) < bandit->edge[arm]];
    return bandit->mean[arm] + normal(s, bits);
}

static void note(const Job *job, i64 row, int arms, double earned, const i64 *pulls) {
    job->earned[row] = earned;
    for (int arm = 0; arm < arms; arm++) job->pulls[row * arms + arm] = pulls[arm];
}

INLINE void ucb1(const Job *job, const Bandit *bandit, const int arms, double alpha) {
    double *growth = calloc((size_t)job->horizon + 1, sizeof *growth);
    double *width = calloc((size_t)job->horizon + 1, sizeof *width);
    for (i64 t = 2; t <= job->horizon; t++) growth[t] = sqrt(log((double)(t - 1)));
    for (i64 n = 1; n <= job->horizon; n++) width[n] = sqrt(alpha / (double)n);
    for (i64 row = 0; row < job->replications; row++) {
        Source source;
        start(&source, job->seed, (u64)(job->first + row), job->reward_owner, job->noise_owner);
        double total[MOST_ARMS] = {0}, mean[MOST_ARMS] = {0}, wide[MOST_ARMS] = {0}, earned = 0.0;
        i64 pulls[MOST_ARMS] = {0};
        for (i64 period = 1; period <= job->horizon; period++) {
            int arm = (int)period - 1;
            if (period > arms) {
                double now = growth[period], highest = mean[0] + now * wide[0];
                arm = 0;
#pragma GCC unroll 8
                for (int each = 1; each < arms; each++) {
                    double bound = mean[each] + now * wide[each];
                    if (bound > highest) {
                        KEEP_BRANCH;
                        highest = bound;
                        arm = each;
                    }
                }
            }
            double reward = reward_of(&source, bandit, 1, arm, pulls[arm]);
            total[arm] += reward;
            pulls[arm] += 1;
            mean[arm] = total[arm] / (double)pulls[arm];
            wide[arm] = width[pulls[arm]];
            earned += reward;
        }
        note(job, row, arms, earned, pulls);
    }
    free(growth);
    free(width);
}

INLINE void thompson_bernoulli(const Job *job, const Bandit *bandit, const int arms) {
    Shape *shape = calloc((size_t)job->horizon + 1, sizeof *shape);
    for (i64 n = 0; n <= job->horizon; n++) {
        double depth = 1.0 + (double)n - 1.0 / 3.0;
        shape[n] = (Shape){depth, 1.0 / sqrt(9.0 * fabs(depth))};
    }
    for (i64 row = 0; row < job->replications; row++) {
        Source source;
        start(&source, job->seed, (u64)(job->first + row), job->reward_owner, job->noise_owner);
        Shape wins[MOST_ARMS], losses[MOST_ARMS];
        i64 pulls[MOST_ARMS] = {0}, won[MOST_ARMS] = {0};
        double earned = 0.0;
        for (i64 period = 1; period <= job->horizon; period++) {
            int arm = (int)period - 1;
            if (period > arms) {
                double highest = -INFINITY;
                arm = 0;
#pragma GCC unroll 8
                for (int each = 0; each < arms; each++) {
                    u64 bits = own_bits(&source, period, each);
                    double win = gamma_from(&source, bits, wins[each]);
                    double loss = gamma_from(&source, more(&source, bits, (u64)RIGHT << 40), losses[each]);
                    if (win / loss > highest) {
                        KEEP_BRANCH;
                        highest = win / loss;
                        arm = each;
                    }
                }
            }
            double reward = reward_of(&source, bandit, 1, arm, pulls[arm]);
            won[arm] += (i64)reward;
            pulls[arm] += 1;
            wins[arm] = shape[won[arm]];
            losses[arm] = shape[pulls[arm] - won[arm]];
            earned += reward;
        }
        note(job, row, arms, earned, pulls);
    }
    free(shape);
}

INLINE void thompson_gaussian(const Job *job, const Bandit *bandit, const int arms) {
    double *weight = calloc((size_t)job->horizon + 1, sizeof *weight);
    double *spread = calloc((size_t)job->horizon + 1, sizeof *spread);
    for (i64 n = 0; n <= job->horizon; n++) {
        weight[n] = 1.0 / (1.0 + (double)n);
        spread[n] = 1.0 / sqrt(1.0 + (double)n);
    }
    for (i64 row = 0; row < job->replications; row++) {
        Source source;
        start(&source, job->seed, (u64)(job->first + row), job->reward_owner, job->noise_owner);
        double total[MOST_ARMS] = {0}, mean[MOST_ARMS] = {0}, sd[MOST_ARMS] = {0}, earned = 0.0;
        i64 pulls[MOST_ARMS] = {0};
        for (i64 period = 1; period <= job->horizon; period++) {
            int arm = (int)period - 1;
            if (period > arms) {
                double highest = -INFINITY;
                arm = 0;
#pragma GCC unroll 8
                for (int each = 0; each < arms; each++) {
                    double drawn = mean[each] + sd[each] * normal(&source, own_bits(&source, period, each));
                    if (drawn > highest) {
                        KEEP_BRANCH;
                        highest = drawn;
                        arm = each;
                    }
                }
            }
            double reward = reward_of(&source, bandit, 0, arm, pulls[arm]);
            total[arm] += reward;
            pulls[arm] += 1;
            mean[arm] = weight[pulls[arm]] * total[arm];
            sd[arm] = spread[pulls[arm]];
            earned += reward;
        }
        note(job, row, arms, earned, pulls);
    }
    free(weight);
    free(spread);
}

INLINE void epsilon_greedy(const Job *job, const Bandit *bandit, const int arms, double epsilon) {
    for (i64 row = 0; row < job->replications; row++) {
        Source source;
        start(&source, job->seed, (u64)(job->first + row), job->reward_owner, job->noise_owner);
        double total[MOST_ARMS] = {0}, mean[MOST_ARMS] = {0}, earned = 0.0;
        i64 pulls[MOST_ARMS] = {0};
        for (i64 period = 1; period <= job->horizon; period++) {
            int arm = (int)period - 1;
            if (period > arms) {
                if (__builtin_expect(uniform(own_bits(&source, period, 0)) < epsilon, 0)) {
                    arm = (int)(uniform(own_bits(&source, period, 1)) * arms);
                } else {
                    double highest = mean[0];
                    arm = 0;
#pragma GCC unroll 8
                    for (int each = 1; each < arms; each++)
                        if (mean[each] > highest) {
                            KEEP_BRANCH;
                            highest = mean[each];
                            arm = each;
                        }
                }
            }
            double reward = reward_of(&source, bandit, 0, arm, pulls[arm]);
            total[arm] += reward;
            pulls[arm] += 1;
            mean[arm] = total[arm] / (double)pulls[arm];
            earned += reward;
        }
        note(job, row, arms, earned, pulls);
    }
}

static Bandit five_bernoulli = {.mean = {0.9, 0.7, 0.5, 0.3, 0.1}};
static Bandit two_bernoulli = {.mean = {0.7, 0.3}};
static Bandit five_gaussian = {.mean = {1.0, 0.8, -2.0, -3.0, -4.0}};

__attribute__((constructor)) static void make_edges(void) {
    for (int arm = 0; arm < MOST_ARMS; arm++) {
        five_bernoulli.edge[arm] = (u64)ceil(five_bernoulli.mean[arm] * 0x1p53);
        two_bernoulli.edge[arm] = (u64)ceil(two_bernoulli.mean[arm] * 0x1p53);
    }
}

void example1_control(const Job *job) { ucb1(job, &five_bernoulli, 5, 2.5); }
void example1_rival(const Job *job) { ucb1(job, &five_bernoulli, 5, 3.0); }
void example2_control(const Job *job) { ucb1(job, &two_bernoulli, 2, 2.0); }
void example2_rival(const Job *job) { thompson_bernoulli(job, &two_bernoulli, 2); }
void example3_control(const Job *job) { thompson_gaussian(job, &five_gaussian, 5); }
void example3_rival(const Job *job) { epsilon_greedy(job, &five_gaussian, 5, 0.1); }
