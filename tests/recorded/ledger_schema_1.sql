-- The rows of a database of schema version 1, as sameluck 0.1.0 wrote them; see test_migrations.py.
INSERT INTO schema_version (version) VALUES
(1);
INSERT INTO experiment (id, name, definition, options, status, reason, resumes_as, salt, streams, started_us) VALUES
(1, 'trial', '{
  "policies": {
    "ucb": "ucb1(alpha=2)",
    "thompson": "thompson_gaussian(prior_mean=0, prior_sd=1, noise_sd=1, first_plays=0)"
  },
  "arms": 3,
  "horizon": 8,
  "replications": 3,
  "design": "replay(share_noise=false)",
  "control": "ucb",
  "seed": 11
}', '{"fallback": null, "reward": {"min": null, "max": null, "default": 0.0, "window_seconds": 600.0}, "exposure": "explicit", "lease_seconds": 60.0, "order": "lockstep", "open_replications": 2, "traffic_share": 1.0, "batch": 1, "audit_share": 0.0, "aa": false, "arrivals_per_day": null, "days": null}', 'paused', 'maintenance', 'running', 'b09fa8f51685697356096dcbb020897e', 1, 1700000000000000),
(2, 'log', '{
  "policies": {
    "ucb": "ucb1(alpha=2)",
    "uniform": "uniform"
  },
  "arms": [
    "a",
    "b"
  ],
  "horizon": 5,
  "replications": 1,
  "design": "replay(share_noise=false)",
  "control": "ucb",
  "seed": 0
}', '{"fallback": null, "reward": {"min": null, "max": null, "default": 0.0, "window_seconds": 3600.0}, "exposure": "implicit", "lease_seconds": 60.0, "order": "phase", "open_replications": null, "traffic_share": 1.0, "batch": 1, "audit_share": 0.0, "aa": false, "arrivals_per_day": null, "days": null}', 'complete', '', 'running', '11d594f10168b576273d185dbcf7f80a', 1, 1700000600000000);
INSERT INTO replication (experiment, number, state, version, policies, opened_us, completed_us) VALUES
(1, 0, 'complete', 9, 2, 1700000000000000, 1700000600000000),
(1, 1, 'open', 4, 2, 1700000000000000, NULL),
(1, 2, 'open', 0, 2, 1700000600000000, NULL),
(2, 0, 'complete', 7, 2, 1700000600000000, 1700000600000000);
INSERT INTO entry (experiment, replication, owner, arm, position, state, assignment, due_us, value, source, settled, settled_us) VALUES
(1, 0, 0, 0, 0, 'settled', 'asg_018bcfe56800886e22314e738dc2d3e6', NULL, 1.145270309091461991e+00, 'observed', 1, 1700000000000000),
(1, 0, 0, 0, 1, 'settled', 'asg_018bcfe56800ec4a37b3540d1018b96e', NULL, -8.53663543415990822005e-01, 'observed', 4, 1700000000000000),
(1, 0, 0, 0, 2, 'settled', 'asg_018bcfe56800c5527fa740cfb7c3a126', NULL, -2.99328966482623082256e-01, 'observed', 6, 1700000000000000),
(1, 0, 0, 1, 0, 'settled', 'asg_018bcfe56800a1ecc52c0405c47a626a', NULL, -2.05815706346754856426e+00, 'observed', 2, 1700000000000000),
(1, 0, 0, 2, 0, 'settled', 'asg_018bcfe568001d0258c36f37f8cb0964', NULL, -5.17785103130905866031e-01, 'observed', 3, 1700000000000000),
(1, 0, 0, 2, 1, 'settled', 'asg_018bcfe56800597aa95276870e2863e8', NULL, 2.78078384758692953582e+00, 'observed', 5, 1700000000000000),
(1, 0, 0, 2, 2, 'settled', 'asg_018bcfe568004c61e277f8f8eebe2161', NULL, 1.90024564584676314282e-01, 'observed', 7, 1700000000000000),
(1, 0, 0, 2, 3, 'settled', 'asg_018bcfe568001fb7a954949b3f47ebb3', NULL, -1.26258368354663086385e-01, 'observed', 8, 1700000000000000),
(1, 0, 0, 2, 4, 'settled', 'asg_018bcfe568005b9274bd52e65a2b3227', NULL, 0.0, 'default', 9, 1700000600000000),
(1, 1, 0, 0, 0, 'settled', 'asg_018bcfee8fc0c4c9c13b91f833018a6f', NULL, -8.36733357832737528747e-02, 'observed', 1, 1700000600000000),
(1, 1, 0, 1, 0, 'settled', 'asg_018bcfee8fc0b91096f1c39c9e437f62', NULL, 6.53698787617933319005e-01, 'observed', 2, 1700000600000000),
(1, 1, 0, 1, 1, 'settled', 'asg_018bcfee8fc0c89e1938ed9bf3627a6b', NULL, 4.38231645407064107633e-01, 'observed', 3, 1700000600000000),
(1, 1, 0, 1, 2, 'assigned', 'asg_018bcfee8fc085dc7338b503724cc3fb', 1700000660000000, NULL, NULL, NULL, NULL),
(1, 1, 0, 2, 0, 'settled', 'asg_018bcfee8fc08a47ec9a8a9e883e7c99', NULL, 5.42031614671301120722e-03, 'observed', 4, 1700000600000000),
(1, 2, 0, 0, 0, 'wanted', NULL, NULL, NULL, NULL, NULL, NULL),
(1, 2, 0, 1, 0, 'wanted', NULL, NULL, NULL, NULL, NULL, NULL),
(2, 0, 0, 0, 0, 'settled', NULL, NULL, 0.0, 'imported', 1, 1700000600000000),
(2, 0, 0, 0, 1, 'settled', NULL, NULL, 1.0, 'imported', 2, 1700000600000000),
(2, 0, 0, 0, 2, 'settled', NULL, NULL, 0.0, 'imported', 5, 1700000600000000),
(2, 0, 0, 0, 3, 'settled', NULL, NULL, 1.0, 'imported', 6, 1700000600000000),
(2, 0, 0, 1, 0, 'settled', NULL, NULL, 0.0, 'imported', 3, 1700000600000000),
(2, 0, 0, 1, 1, 'settled', NULL, NULL, 1.0, 'imported', 4, 1700000600000000),
(2, 0, 0, 1, 2, 'settled', NULL, NULL, 0.0, 'imported', 7, 1700000600000000);
INSERT INTO assignment (id, experiment, replication, owner, arm, position, unit, assigned_us, exposed_us, voided_us) VALUES
('asg_018bcfe568001d0258c36f37f8cb0964', 1, 0, 0, 2, 0, '09559cfc33967cea68ab278792714b9d', 1700000000000000, NULL, NULL),
('asg_018bcfe568001fb7a954949b3f47ebb3', 1, 0, 0, 2, 3, '7b654a313bf91c5b95007e57b6d726dd', 1700000000000000, NULL, NULL),
('asg_018bcfe5680037d6f540e65d44d96ccb', 1, 0, 0, 2, 1, 'af7b9a04e20ea474ac254fc208e18188', 1700000000000000, NULL, 1700000000000000),
('asg_018bcfe568004c61e277f8f8eebe2161', 1, 0, 0, 2, 2, '6c8172c0dc71187cc39ca3c32234f9fd', 1700000000000000, NULL, NULL),
('asg_018bcfe56800597aa95276870e2863e8', 1, 0, 0, 2, 1, '787302ced69b329f4d244cadcb797aef', 1700000000000000, NULL, NULL),
('asg_018bcfe568005b9274bd52e65a2b3227', 1, 0, 0, 2, 4, 'c412965ac559329e4b9ed3929e540475', 1700000000000000, 1700000000000000, NULL),
('asg_018bcfe56800886e22314e738dc2d3e6', 1, 0, 0, 0, 0, 'cee231ad17d783e89c5d46cc3c4700ca', 1700000000000000, NULL, NULL),
('asg_018bcfe56800a1ecc52c0405c47a626a', 1, 0, 0, 1, 0, '7cf1af6910c2092f5fc3267d4e727b62', 1700000000000000, NULL, NULL),
('asg_018bcfe56800c5527fa740cfb7c3a126', 1, 0, 0, 0, 2, '10dfeffc0184c3e1ef6c34d401aa960f', 1700000000000000, NULL, NULL),
('asg_018bcfe56800ec4a37b3540d1018b96e', 1, 0, 0, 0, 1, 'e127c704318164a4c668e912b009a65c', 1700000000000000, NULL, NULL),
('asg_018bcfee8fc085dc7338b503724cc3fb', 1, 1, 0, 1, 2, 'f79f1c1019663e8c5413eca8ff7daf5a', 1700000600000000, NULL, NULL),
('asg_018bcfee8fc08a47ec9a8a9e883e7c99', 1, 1, 0, 2, 0, '91ada5ce44bf2d4b2c7933c448f25fd6', 1700000600000000, NULL, NULL),
('asg_018bcfee8fc0b91096f1c39c9e437f62', 1, 1, 0, 1, 0, '828eb89c2534f61930e6960b0182e35c', 1700000600000000, NULL, NULL),
('asg_018bcfee8fc0c4c9c13b91f833018a6f', 1, 1, 0, 0, 0, 'cdfe39405502505de3f0627b59d76702', 1700000600000000, NULL, NULL),
('asg_018bcfee8fc0c89e1938ed9bf3627a6b', 1, 1, 0, 1, 1, 'b12bd69d371241e9d28ff00b7b0db1fd', 1700000600000000, NULL, NULL);
INSERT INTO reward_event (assignment, value, received_us, outcome) VALUES
('asg_018bcfe56800886e22314e738dc2d3e6', 1.145270309091461991e+00, 1700000000000000, 'applied'),
('asg_018bcfe56800a1ecc52c0405c47a626a', -2.05815706346754856426e+00, 1700000000000000, 'applied'),
('asg_018bcfe568001d0258c36f37f8cb0964', -5.17785103130905866031e-01, 1700000000000000, 'applied'),
('asg_018bcfe56800ec4a37b3540d1018b96e', -8.53663543415990822005e-01, 1700000000000000, 'applied'),
('asg_018bcfe56800597aa95276870e2863e8', 2.78078384758692953582e+00, 1700000000000000, 'applied'),
('asg_018bcfe56800c5527fa740cfb7c3a126', -2.99328966482623082256e-01, 1700000000000000, 'applied'),
('asg_018bcfe568004c61e277f8f8eebe2161', 1.90024564584676314282e-01, 1700000000000000, 'applied'),
('asg_018bcfe568001fb7a954949b3f47ebb3', -1.26258368354663086385e-01, 1700000000000000, 'applied'),
('asg_018bcfee8fc0c4c9c13b91f833018a6f', -8.36733357832737528747e-02, 1700000600000000, 'applied'),
('asg_018bcfee8fc0b91096f1c39c9e437f62', 6.53698787617933319005e-01, 1700000600000000, 'applied'),
('asg_018bcfee8fc0c89e1938ed9bf3627a6b', 4.38231645407064107633e-01, 1700000600000000, 'applied'),
('asg_018bcfee8fc08a47ec9a8a9e883e7c99', 5.42031614671301120722e-03, 1700000600000000, 'applied');
INSERT INTO answer (experiment, reason, calls) VALUES
(1, 'ASSIGNED', 15);
