/* LinUCB and LinTS on users with standard normal features, and Q-learning on RiverSwim, as a C programmer would write
   them for speed: the yardstick of contexts.py.

   The same updates as sameluck's: half of each symmetric matrix, in panels of eight columns, and one rank-one update a
   reward. Vectors of eight doubles are gcc's own, and the number of features is known to the compiler. */

#define ADDRESSED
#include "reference.c"

#include <string.h>

enum { CONTEXT = 6, ARMS = 5, LANES = 8 };
typedef double Vector __attribute__((vector_size(64), aligned(64)));

typedef struct {
    u64 seed, reward_owner, noise_owner;
    i64 replications, horizon, features, thompson;
    double width;          /* alpha, or v */
    const double *weights; /* (arm, feature) */
    double *earned;        /* (replication,) */
    double *regret;        /* (replication,) */
    i64 *pulls;            /* (replication, arm) */
} ContextJob;

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

/* ---- Q-learning in a Markov decision process -------------------------------------------------------- */

enum { ACTIONS = 2, MAX_STATES = 64 };

typedef struct {
    u64 seed, reward_owner, noise_owner;
    i64 replications, horizon, states, episode, sizes;
    double epsilon, omega, discount, initial;
    const double *steps;                         /* sizes by number of visits */
    const i64 *offsets;                          /* of the outcomes of each cell */
    const double *cumulative, *nexts, *rewards;  /* by outcome */
    const double *gaps;                          /* (steps to go - 1, cell) */
    double *earned, *regret;                     /* (replication,) */
    i64 *visits;                                 /* (replication, cell) */
} StateJob;

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
