/* Jobs that contexts.py hands to contexts.c and contexts_free.c. */

#include <string.h>

enum { ARMS = 5, ACTIONS = 2, MAX_STATES = 64, MAX_LEVELS = 64 };

typedef struct {
    u64 seed, reward_owner, noise_owner;
    i64 replications, horizon, features, thompson;
    double width;          /* alpha, or v */
    const double *weights; /* (arm, feature) */
    double *earned;        /* (replication,) */
    double *regret;        /* (replication,) */
    i64 *pulls;            /* (replication, arm) */
} ContextJob;

typedef struct {
    u64 seed, reward_owner, noise_owner;
    i64 replications, horizon, levels;
    double alpha;
    const double *cumulative; /* frequencies of the levels */
    const double *means;      /* (level, arm) */
    double *earned, *regret;  /* (replication,) */
    i64 *visits;              /* (replication, cell) */
} LevelJob;

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
