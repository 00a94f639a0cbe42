/* LinUCB and LinTS on users with standard normal features, UCB1 in each level, and Q-learning on RiverSwim, as a C
   programmer would write them for speed: the yardstick of contexts.py.

   The same updates as sameluck's: half of each symmetric matrix, in panels of eight columns, and one rank-one update a
   reward. Vectors of eight doubles are gcc's own, and the number of features is known to the compiler. */

#define ADDRESSED
#include "reference.c"
#include "contexts.h"

enum { CONTEXT = 6, LANES = 8 };
typedef double Vector __attribute__((vector_size(64), aligned(64)));

INLINE double total(Vector v) { return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7])); }

INLINE void linear(const ContextJob *job, const int features, const int thompson) {
    const int panels = (features + LANES - 1) / LANES;
    int rows = 0;
    for (int column = 0; column < features; column += LANES) rows += features - column;
    Vector *space = aligned_alloc(64, sizeof *space * (size_t)(ARMS * (rows + 2 * panels + 1) + (LANES + 2) * panels));
    Vector *matrices = space, *thetas = matrices + ARMS * rows, *gains = thetas + ARMS * panels;
    Vector *context = gains + ARMS, *gain = context + panels, *partial = gain + panels;
    Vector *weights = partial + LANES * panels; /* padded with zeros */
    double *x = (double *)context, *u = (double *)gain;
    memset(weights, 0, sizeof *weights * (size_t)(ARMS * panels));
    for (int arm = 0; arm < ARMS; arm++)
        memcpy(weights + arm * panels, job->weights + arm * features, sizeof *x * (size_t)features);
    for (i64 row = 0; row < job->replications; row++) {
        Source source;
        start(&source, job->seed, (u64)row, job->reward_owner, job->noise_owner);
        Key users = stream(job->seed, CONTEXT, (u64)row, job->reward_owner);
        memset(space, 0, (size_t)((char *)weights - (char *)space));
        for (int arm = 0; arm < ARMS; arm++) {
            double *matrix = (double *)(matrices + arm * rows);
            for (int column = 0; column < features; column += LANES) {
                for (int lane = 0; lane < LANES && column + lane < features; lane++) matrix[(LANES + 1) * lane] = 1.0;
                matrix += LANES * (features - column);
            }
        }
        double earned = 0.0, regret = 0.0, reward = 0.0, mean[ARMS], variance[ARMS];
        i64 pulls[ARMS] = {0};
        int arm = 0;
        for (i64 period = 1; period <= job->horizon; period++) {
            if (period > 1) {
                Vector *restrict p = matrices + arm * rows, *restrict theta = thetas + arm * panels;
                double scale = 1.0 + variance[arm], step = (reward - mean[arm]) / scale, shrink = 1.0 / sqrt(scale);
                if (panels == 1) {
                    theta[0] += step * gains[arm];
                    gain[0] = shrink * gains[arm];
                } else
                    for (int panel = 0; panel < panels; panel++) {
                        int column = LANES * panel, end = column + LANES < features ? column + LANES : features;
                        Vector product = {0}, below = {0}, lanes = context[panel];
                        for (int i = column; i < end; i++) product += x[i] * *p++;
                        if (column)
                            for (int lane = 0; lane < LANES; lane++) below[lane] = total(partial[column + lane]);
                        for (int i = end; i < features; i++, p++) {
                            below += x[i] * *p;
                            partial[i] = column ? partial[i] + lanes * *p : lanes * *p;
                        }
                        product += below;
                        theta[panel] += step * product;
                        gain[panel] = shrink * product;
                    }
                p = matrices + arm * rows;
                for (int panel = 0; panel < panels; panel++) {
                    Vector lanes = gain[panel];
                    for (int i = LANES * panel; i < features; i++) *p++ -= u[i] * lanes;
                }
            }
            for (int i = 0; i < features; i++) x[i] = normal(&source, word(users, (u64)period * SLOTS + (u64)i));
            double highest = -INFINITY, best = -INFINITY, means[ARMS];
            for (int each = 0; each < ARMS; each++) {
                const Vector *restrict p = matrices + each * rows, *restrict theta = thetas + each * panels;
                Vector estimates = {0}, variances = {0};
                for (int panel = 0; panel < panels; panel++) {
                    Vector product = {0}, even = {0}, odd = {0};
                    int i = LANES * panel, end = i + LANES < features ? i + LANES : features;
                    for (; i < end; i++) product += x[i] * *p++;
                    for (; i + 2 <= features; i += 2, p += 2) {
                        even += x[i] * p[0];
                        odd += x[i + 1] * p[1];
                    }
                    for (; i < features; i++) even += x[i] * *p++;
                    if (panels == 1) gains[each] = product;
                    variances += context[panel] * (product + 2.0 * (even + odd));
                    estimates += context[panel] * theta[panel];
                }
                mean[each] = total(estimates);
                variance[each] = total(variances);
                double width = job->width * sqrt(variance[each]);
                if (thompson) width *= normal(&source, own_bits(&source, period, each));
                if (mean[each] + width > highest) {
                    KEEP_BRANCH;
                    highest = mean[each] + width;
                    arm = each;
                }
            }
            for (int each = 0; each < ARMS; each++) {
                Vector products = {0};
                for (int panel = 0; panel < panels; panel++) products += context[panel] * weights[each * panels + panel];
                means[each] = total(products);
                if (means[each] > best) best = means[each];
            }
            reward = means[arm] + normal(&source, reward_bits(&source, arm, period - 1));
            regret += best - means[arm];
            earned += reward;
            pulls[arm] += 1;
        }
        job->earned[row] = earned;
        job->regret[row] = regret;
        for (int each = 0; each < ARMS; each++) job->pulls[row * ARMS + each] = pulls[each];
    }
    free(space);
}

void play_linear(const ContextJob *job) {
    if (job->features == 5) job->thompson ? linear(job, 5, 1) : linear(job, 5, 0);
    if (job->features == 20) job->thompson ? linear(job, 20, 1) : linear(job, 20, 0);
    if (job->features == 100) job->thompson ? linear(job, 100, 1) : linear(job, 100, 0);
}

/* ---- UCB1 in each level ------------------------------------------------------------------------------- */

typedef struct {
    double means[ARMS], widths[ARMS], totals[ARMS];
    i64 pulls[ARMS], periods;
} Level;

enum { GUIDE = 256 };

void play_levels(const LevelJob *job) {
    const i64 cells = job->levels * ARMS;
    double *growth = calloc((size_t)job->horizon + 2, sizeof *growth), gaps[MAX_LEVELS * ARMS];
    double *width = calloc((size_t)job->horizon + 2, sizeof *width);
    u64 limits[MAX_LEVELS], edges[MAX_LEVELS * ARMS];
    unsigned guide[GUIDE]; /* the lowest level in each part of [0, 1) */
    for (i64 level = 0; level < job->levels; level++) {
        const double *means = job->means + level * ARMS;
        double best = 0.0;
        for (int arm = 0; arm < ARMS; arm++) best = means[arm] > best ? means[arm] : best;
        for (int arm = 0; arm < ARMS; arm++) {
            gaps[level * ARMS + arm] = best - means[arm];
            edges[level * ARMS + arm] = (u64)ceil(means[arm] * 0x1p53);
        }
        limits[level] = (u64)ceil(job->cumulative[level] * 0x1p53);
    }
    for (u64 part = 0, level = 0; part < GUIDE; part++) {
        while (limits[level] <= part << 45) level++;
        guide[part] = (unsigned)level;
    }
    for (i64 row = 0; row < job->replications; row++) {
        Key users = stream(job->seed, CONTEXT, (u64)row, job->reward_owner), stacks[MAX_LEVELS * ARMS];
        Key rewards = stream(job->seed, REWARD, (u64)row, job->reward_owner);
        Level levels[MAX_LEVELS] = {0};
        double earned = 0.0, regret = 0.0;
        i64 known = 0; /* entries of the tables */
        for (i64 cell = 0; cell < cells; cell++) stacks[cell] = within(rewards, (u64)cell);
        for (i64 period = 1; period <= job->horizon; period++) {
            u64 bits = word(users, (u64)period * SLOTS), drawn = bits >> 11;
            unsigned index = guide[bits >> 56];
            index += limits[index] <= drawn;
            while (__builtin_expect(limits[index] <= drawn, 0)) index++;
            Level *level = levels + index;
            int arm = (int)level->periods++;
            if (__builtin_expect(arm >= ARMS, 1)) {
                if (__builtin_expect(level->periods > known, 0)) {
                    known = level->periods;
                    growth[known] = sqrt(log((double)(known - 1)));
                }
                double now = growth[level->periods], highest = level->means[0] + now * level->widths[0];
                arm = 0;
#pragma GCC unroll 8
                for (int each = 1; each < ARMS; each++) {
                    double bound = level->means[each] + now * level->widths[each];
                    arm = bound > highest ? each : arm;
                    highest = bound > highest ? bound : highest;
                }
            }
            i64 cell = (i64)index * ARMS + arm, pulls = level->pulls[arm]++;
            static const double pays[2] = {0.0, 1.0};
            double reward = pays[(word(stacks[cell], (u64)pulls) >> 11) < edges[cell]];
            if (width[pulls + 1] == 0.0) width[pulls + 1] = sqrt(job->alpha / (double)(pulls + 1));
            level->totals[arm] += reward;
            level->means[arm] = level->totals[arm] / (double)(pulls + 1);
            level->widths[arm] = width[pulls + 1];
            earned += reward;
            regret += gaps[cell];
        }
        for (i64 cell = 0; cell < cells; cell++) job->visits[row * cells + cell] = levels[cell / ARMS].pulls[cell % ARMS];
        job->earned[row] = earned;
        job->regret[row] = regret;
    }
    free(growth);
    free(width);
}

/* ---- Q-learning in a Markov decision process -------------------------------------------------------- */

/* No outcome ends an episode, and every episode begins in state 0. */
void play_states(const StateJob *job) {
    const i64 cells = job->states * ACTIONS;
    for (i64 row = 0; row < job->replications; row++) {
        Key rewards = stream(job->seed, REWARD, (u64)row, job->reward_owner), stacks[MAX_STATES * ACTIONS];
        Key noise = stream(job->seed, DECISION, (u64)row, job->noise_owner);
        double values[MAX_STATES * ACTIONS], earned = 0.0, regret = 0.0;
        i64 *visits = job->visits + row * cells, state = 0, step = 0;
        for (i64 cell = 0; cell < cells; cell++) {
            stacks[cell] = within(rewards, (u64)cell);
            values[cell] = job->initial;
            visits[cell] = 0;
        }
        for (i64 period = 1; period <= job->horizon; period++) {
            i64 arm = values[ACTIONS * state + 1] > values[ACTIONS * state];
            if (uniform(word(noise, (u64)period * SLOTS)) < job->epsilon)
                arm = (i64)(uniform(word(noise, (u64)period * SLOTS + 1)) * ACTIONS);
            i64 cell = ACTIONS * state + arm, outcome = job->offsets[cell], last = job->offsets[cell + 1] - 1;
            double target = uniform(word(stacks[cell], (u64)visits[cell])) * job->cumulative[last];
            while (outcome < last && job->cumulative[outcome] <= target) outcome++;
            double reward = job->rewards[outcome];
            earned += reward;
            regret += job->gaps[(job->episode - step - 1) * cells + cell];
            i64 visit = ++visits[cell];
            double size = visit < job->sizes ? job->steps[visit] : pow((double)visit, -job->omega);
            double later = 0.0;
            if (++step < job->episode) {
                state = (i64)job->nexts[outcome];
                double left = values[ACTIONS * state], right = values[ACTIONS * state + 1];
                later = job->discount * (right > left ? right : left);
            } else
                state = step = 0;
            values[cell] += size * (reward + later - values[cell]);
        }
        job->earned[row] = earned;
        job->regret[row] = regret;
    }
}
