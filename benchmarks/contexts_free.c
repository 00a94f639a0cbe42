/* UCB1 in each level, Q-learning and LinUCB, bound to no address: the second yardstick of contexts.py.

   Scalar code that draws every number in sequence from xoshiro256++. It knows the environments: levels are equally
   frequent, a river has at most three outcomes, and each episode begins in state 0. */

#include "reference.c"
#include "contexts.h"

typedef struct {
    double means[ARMS], widths[ARMS], totals[ARMS];
    i64 pulls[ARMS], periods;
} Level;

void free_levels(const LevelJob *job) {
    double *growth = calloc((size_t)job->horizon + 2, sizeof *growth), gaps[MAX_LEVELS * ARMS];
    double *width = calloc((size_t)job->horizon + 2, sizeof *width);
    u64 edges[MAX_LEVELS * ARMS];
    for (i64 cell = 0; cell < job->levels * ARMS; cell++) {
        const double *means = job->means + cell / ARMS * ARMS;
        double best = 0.0;
        for (int arm = 0; arm < ARMS; arm++) best = means[arm] > best ? means[arm] : best;
        gaps[cell] = best - job->means[cell];
        edges[cell] = (u64)ceil(job->means[cell] * 0x1p53);
    }
    i64 known = 0; /* entries of the tables */
    for (i64 row = 0; row < job->replications; row++) {
        Source source;
        start(&source, job->seed, (u64)row, job->reward_owner, job->noise_owner);
        Level levels[MAX_LEVELS] = {0};
        double earned = 0.0, regret = 0.0;
        for (i64 period = 1; period <= job->horizon; period++) {
            u64 index = (u64)(((unsigned __int128)next(&source) * (u64)job->levels) >> 64);
            Level *level = levels + index;
            int arm = (int)level->periods++;
            if (__builtin_expect(level->periods > known, 0)) {
                known = level->periods;
                growth[known] = sqrt(log((double)(known - 1)));
                width[known] = sqrt(job->alpha / (double)known);
            }
            if (__builtin_expect(arm >= ARMS, 1)) {
                double now = growth[level->periods], highest = level->means[0] + now * level->widths[0];
                arm = 0;
#pragma GCC unroll 8
                for (int each = 1; each < ARMS; each++) {
                    double bound = level->means[each] + now * level->widths[each];
                    arm = bound > highest ? each : arm;
                    highest = bound > highest ? bound : highest;
                }
            }
            u64 cell = index * ARMS + (u64)arm;
            double reward = (double)(i64)(((next(&source) >> 11) - edges[cell]) >> 63);
            i64 pulls = ++level->pulls[arm];
            level->totals[arm] += reward;
            level->means[arm] = level->totals[arm] / (double)pulls;
            level->widths[arm] = width[pulls];
            earned += reward;
            regret += gaps[cell];
        }
        for (i64 cell = 0; cell < job->levels * ARMS; cell++)
            job->visits[row * job->levels * ARMS + cell] = levels[cell / ARMS].pulls[cell % ARMS];
        job->earned[row] = earned;
        job->regret[row] = regret;
    }
    free(growth);
    free(width);
}

enum { OUTCOMES = 3 };

typedef struct {
    u64 limits[OUTCOMES - 1]; /* lowest of the 2^53 values that draw the second and the third outcome */
    double rewards[OUTCOMES];
    int nexts[OUTCOMES];
} Cell;

void free_states(const StateJob *job) {
    const i64 count = job->states * ACTIONS;
    Cell cells[MAX_STATES * ACTIONS];
    for (i64 cell = 0; cell < count; cell++)
        for (int outcome = 0; outcome < OUTCOMES; outcome++) {
            i64 first = job->offsets[cell], index = first + outcome, last = job->offsets[cell + 1] - 1;
            if (outcome)
                cells[cell].limits[outcome - 1] = index > last ? 1ull << 53 : (u64)ceil(job->cumulative[index - 1] * 0x1p53);
            cells[cell].rewards[outcome] = job->rewards[index > last ? last : index];
            cells[cell].nexts[outcome] = (int)job->nexts[index > last ? last : index];
        }
    const u64 explores = (u64)ceil(job->epsilon * 0x1p53);
    for (i64 row = 0; row < job->replications; row++) {
        Source source;
        start(&source, job->seed, (u64)row, job->reward_owner, job->noise_owner);
        double values[MAX_STATES * ACTIONS], earned = 0.0, regret = 0.0;
        i64 *visits = job->visits + row * count, state = 0, step = 0;
        for (i64 cell = 0; cell < count; cell++) {
            values[cell] = job->initial;
            visits[cell] = 0;
        }
        for (i64 period = 1; period <= job->horizon; period++) {
            i64 arm = values[ACTIONS * state + 1] > values[ACTIONS * state];
            if (__builtin_expect((next(&source) >> 11) < explores, 0)) arm = (i64)(next(&source) >> 63);
            i64 index = ACTIONS * state + arm;
            const Cell *cell = cells + index;
            u64 drawn = next(&source) >> 11;
            i64 outcome = (drawn >= cell->limits[0]) + (drawn >= cell->limits[1]);
            double reward = cell->rewards[outcome];
            earned += reward;
            regret += job->gaps[(job->episode - step - 1) * count + index];
            i64 visit = ++visits[index];
            double size = visit < job->sizes ? job->steps[visit] : pow((double)visit, -job->omega), later = 0.0;
            if (++step < job->episode) {
                state = cell->nexts[outcome];
                double left = values[ACTIONS * state], right = values[ACTIONS * state + 1];
                later = job->discount * (right > left ? right : left);
            } else
                state = step = 0;
            values[index] += size * (reward + later - values[index]);
        }
        job->earned[row] = earned;
        job->regret[row] = regret;
    }
}

/* Whole matrices. A product is summed in blocks of columns, which stay in registers. */
INLINE void linear(const ContextJob *job, const int features, const int block) {
    const int width = (features + block - 1) / block * block, numbers = features * width;
    const size_t size = sizeof(double) * (size_t)(ARMS * (numbers + 3 * width) + width);
    double *space = aligned_alloc(64, (size + 63) / 64 * 64);
    double *matrices = space, *thetas = matrices + ARMS * numbers, *gains = thetas + ARMS * width;
    double *weights = gains + ARMS * width, *x = weights + ARMS * width;
    for (i64 row = 0; row < job->replications; row++) {
        Source source;
        start(&source, job->seed, (u64)row, job->reward_owner, job->noise_owner);
        memset(space, 0, size);
        for (int arm = 0; arm < ARMS; arm++) {
            memcpy(weights + arm * width, job->weights + arm * features, sizeof *x * (size_t)features);
            for (int i = 0; i < features; i++) matrices[arm * numbers + i * (width + 1)] = 1.0;
        }
        double earned = 0.0, regret = 0.0, mean[ARMS], variance[ARMS], means[ARMS];
        i64 pulls[ARMS] = {0};
        for (i64 period = 1; period <= job->horizon; period++) {
            for (int i = 0; i < features; i++) x[i] = normal(&source, next(&source));
            double highest = -INFINITY, best = -INFINITY;
            int arm = 0;
            for (int each = 0; each < ARMS; each++) {
                const double *restrict p = matrices + each * numbers, *restrict theta = thetas + each * width;
                const double *restrict weight = weights + each * width;
                double *restrict gain = gains + each * width, estimate = 0.0, spread = 0.0, truth = 0.0;
                for (int first = 0; first < width; first += block) {
                    double product[block];
                    for (int j = 0; j < block; j++) product[j] = 0.0;
                    for (int i = 0; i < features; i++)
                        for (int j = 0; j < block; j++) product[j] += x[i] * p[i * width + first + j];
                    for (int j = 0; j < block; j++) gain[first + j] = product[j];
                }
                for (int j = 0; j < features; j++) {
                    estimate += x[j] * theta[j];
                    spread += x[j] * gain[j];
                    truth += x[j] * weight[j];
                }
                mean[each] = estimate;
                variance[each] = spread;
                means[each] = truth;
                best = truth > best ? truth : best;
                double bound = estimate + job->width * sqrt(spread);
                arm = bound > highest ? each : arm;
                highest = bound > highest ? bound : highest;
            }
            double reward = means[arm] + normal(&source, next(&source));
            double scale = 1.0 / (1.0 + variance[arm]), step = (reward - mean[arm]) * scale;
            double *restrict p = matrices + arm * numbers, *restrict theta = thetas + arm * width;
            const double *restrict gain = gains + arm * width;
            for (int j = 0; j < width; j++) theta[j] += step * gain[j];
            for (int i = 0; i < features; i++) {
                double scaled = scale * gain[i];
                for (int j = 0; j < width; j++) p[i * width + j] -= scaled * gain[j];
            }
            earned += reward;
            regret += best - means[arm];
            pulls[arm] += 1;
        }
        job->earned[row] = earned;
        job->regret[row] = regret;
        for (int arm = 0; arm < ARMS; arm++) job->pulls[row * ARMS + arm] = pulls[arm];
    }
    free(space);
}

void free_linear(const ContextJob *job) {
    if (job->features == 5) linear(job, 5, 5);
    if (job->features == 20) linear(job, 20, 20);
    if (job->features == 100) linear(job, 100, 20);
}
