-- Models and options that can be asked for.
DELETE FROM dp_int.option;
DELETE FROM dp_int.model;
INSERT INTO dp_int.model (name, delta) VALUES ('l1', 0), ('linear', 1e-6), ('logistic', 1e-6), ('huber', 1e-6);

INSERT INTO dp_int.option (model, name, type, minimum, maximum, choices, "default", description) VALUES
  ('l1', 'theta', 'number', 1.05, 2, NULL, '2', 'Moments the residuals have: 2 for a bounded second moment, less for heavier tails'),
  ('l1', 'iota', 'number', 1e-9, 1e9, NULL, NULL, 'Inverse truncation scale of a residual, in units of 1 / the target''s scale'),
  ('l1', 'radius', 'number', 1e-6, 1e9, NULL, '10', 'Radius of the set of coefficients, in scaled units'),
  ('l1', 'pitch', 'number', 1e-12, 1e6, NULL, NULL, 'Spacing of the public grid of coefficients, in scaled units'),
  ('l1', 'set', 'string', NULL, NULL, '{ball,box}', '"ball"', 'Shape of the set of coefficients'),
  ('l1', 'residual_scale', 'number', 1e-9, 1e9, NULL, '1', 'Typical residual in units of the target''s scale, from public knowledge'),
  ('l1', 'method', 'string', NULL, NULL, '{auto,exponential_mechanism,objective_perturbation}', '"auto"', 'Mechanism; auto decides from rows, columns and eps'),
  ('l1', 'clip', 'number', 1e-9, 1e9, NULL, NULL, 'Objective perturbation: bound on the norm of one person''s gradient'),
  ('l1', 'smoothing', 'number', 1e-9, 1e9, NULL, NULL, 'Objective perturbation: width over which the absolute loss is smoothed, in scaled units');

-- The three gradient models share their options but for the last ones.
INSERT INTO dp_int.option (model, name, type, minimum, maximum, choices, "default", description)
SELECT m.name, o.*
  FROM dp_int.model m, (VALUES
  ('method', 'string', NULL::float8, NULL::float8,
   '{auto,catoni,trimmed,ksu,ksu_axis,sample_aggregate,spgd_clip,spgd_kamath,spgd_holland,svrg,svrg_pp,accmd,gd}'::text[], '"auto"'::jsonb,
   'Algorithm; auto decides from public facts'),
  ('penalty', 'string', NULL, NULL, '{none,l1,l2,elastic_net,group_l1}', '"none"', 'Penalty on the coefficients but the intercept, in scaled units'),
  ('lambda', 'number', 0, 1e9, NULL, '0', 'Weight of the penalty'),
  ('l1_ratio', 'number', 0, 1, NULL, '0.5', 'Elastic net: share of the l1 norm'),
  ('groups', 'groups', NULL, NULL, NULL, NULL, 'Group l1: lists of feature names, for instance [["a", "b"], ["c"]]'),
  ('radius', 'number', 1e-6, 1e9, NULL, '10', 'Radius of the ball of coefficients, in scaled units'),
  ('residual_scale', 'number', 1e-9, 1e9, NULL, NULL, 'Typical residual in units of the target''s scale, from public knowledge'),
  ('feature_norm', 'number', 1e-9, 1e9, NULL, NULL, 'Length of a row of scaled features beyond which it weighs less'),
  ('clip', 'number', 1e-9, 1e9, NULL, NULL, 'Bound on the norm of one person''s gradient'),
  ('moment', 'number', 1e-12, 1e12, NULL, NULL, 'Second moment of one coordinate of a gradient, from public knowledge'),
  ('truncation', 'number', 1e-9, 1e9, NULL, NULL, 'catoni, spgd_holland: scale of a gradient''s coordinate; ksu: distance from the centre at which gradients are cut'),
  ('range', 'number', 1e-9, 1e9, NULL, NULL, 'trimmed, spgd_kamath, ksu: width of the interval that holds a gradient''s coordinate'),
  ('trim', 'integer', 1, 1e9, NULL, NULL, 'trimmed: records cut off at either end'),
  ('steps', 'integer', 1, 500, NULL, NULL, 'Iterations'),
  ('step_size', 'number', 1e-9, 1e9, NULL, NULL, 'Step size, in scaled units'),
  ('batch', 'integer', 1, 1e12, NULL, NULL, 'Rows of a batch; all rows, but for svrg under rdp accounting'),
  ('blocks', 'integer', 1, 1e6, NULL, NULL, 'sample_aggregate, spgd_kamath: disjoint blocks'),
  ('whitening', 'string', NULL, NULL, '{auto,on,off}', '"auto"', 'Whether a part of the budget is spent on the second moments of the features')
  ) AS o(name, type, minimum, maximum, choices, "default", description)
 WHERE m.delta > 0;

INSERT INTO dp_int.option (model, name, type, minimum, maximum, "default", description) VALUES
  ('huber', 'huber_delta', 'number', 1e-9, 1e9, '1', 'Residual beyond which the loss is linear, in units of the target''s scale'),
  ('logistic', 'negative_label', 'number', -1e300, 1e300, '0', 'Value of the target that counts as 0'),
  ('logistic', 'positive_label', 'number', -1e300, 1e300, '1', 'Value of the target that counts as 1; any other value says nothing');
